package maintenance

import "spindle/protocol"

var (
	errSwitch   = &protocol.Error{Code: "ERR", Text: "CLIENT MAINT_NOTIFICATIONS takes ON or OFF"}
	errEndpoint = &protocol.Error{Code: "ERR", Text: "unknown moving-endpoint-type"}
)
