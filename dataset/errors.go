package dataset

import (
	"errors"

	"spindle/protocol"
)

// The errors that clients get.
var (
	errShutdown      = protocol.Errorf("ERR", "Errors trying to SHUTDOWN. Check logs.")
	errNoShutdown    = protocol.Errorf("ERR", "No shutdown in progress.")
	errNoCluster     = protocol.Errorf("ERR", "SHUTDOWN FAILOVER is only supported in cluster mode.")
	errShutdownWaits = protocol.Errorf("ERR", "SHUTDOWN without NOW or ABORT isn't allowed for DENY BLOCKING client")
	errLoadDump      = protocol.Errorf("ERR", "Error trying to load the RDB dump, check server logs.")
	errReload        = protocol.Errorf("ERR", "Slots move to this replica's primary, and no file has their keys yet")
	errLoadLog       = protocol.Errorf("ERR", "Error trying to load the AOF files, check server logs.")
	errStaleInScript = protocol.Errorf("ERR", "Can not execute the command on a stale replica")
	errTurnOn        = errors.New("Unable to turn on AOF. Check server logs.")
)
