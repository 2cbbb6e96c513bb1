package acl

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errGenPass = &protocol.Error{Code: "ERR",
		Text: "ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"}
	errKeepDefault = &protocol.Error{Code: "ERR", Text: "The 'default' user cannot be removed"}
	errNoFile      = &protocol.Error{Code: "ERR", Text: "This Redis instance is not configured to use an ACL file. " +
		"You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE " +
		"(assuming you have a Redis configuration file set) in order to store users in the Redis configuration."}
	errSave = &protocol.Error{Code: "ERR", Text: "There was an error trying to save the ACLs. " +
		"Please check the server logs for more information"}
)

func errCategory(name []byte) error { return protocol.Errorf("ERR", "Unknown category '%.128s'", name) }

func errNoUser(name []byte) error { return protocol.Errorf("ERR", "User '%s' not found", name) }

func errNoCommand(name []byte) error { return protocol.Errorf("ERR", "Command '%s' not found", name) }

func errLoad(err error) error { return &protocol.Error{Code: "ERR", Text: err.Error()} }
