package config

import "spindle/protocol"

func errWhy(err error) error { return protocol.Errorf("ERR", "%s", err) }
