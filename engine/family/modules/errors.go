package modules

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errHasType = &protocol.Error{Code: "ERR",
		Text: "Error unloading module: the module exports one or more module-side data types, can't unload"}
	errNoModule = &protocol.Error{Code: "ERR", Text: "Error unloading module: no such module with that name"}
	// errLoad is worded exactly as in Redis, because clients compare it. refuse logs the reason.
	errLoad = &protocol.Error{Code: "ERR", Text: "Error loading the extension. Please check the server logs."}
)
