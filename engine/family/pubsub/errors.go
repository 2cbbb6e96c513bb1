package pubsub

import "spindle/protocol"

func errDenyBlocking(command string) error {
	return protocol.Errorf("ERR", "%s isn't allowed for a DENY BLOCKING client", command)
}
