package hll

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errNoKey     = &protocol.Error{Code: "ERR", Text: "The specified key does not exist"}
	errNotSparse = &protocol.Error{Code: "ERR", Text: "HLL encoding is not sparse"}
	errDisagree  = &protocol.Error{Code: "ERR", Text: "TESTFAILED dense/sparse disagree"}
	errNotUsed   = &protocol.Error{Code: "ERR", Text: "TESTFAILED sparse encoding not used"}
	errNotSketch = &protocol.Error{Code: "WRONGTYPE", Text: "Key is not a valid HyperLogLog string value."}
	errCorrupt   = &protocol.Error{Code: "INVALIDOBJ", Text: "Corrupted HLL object detected"}
)

func errSubcommand(name []byte) error {
	return protocol.Errorf("ERR", "Unknown PFDEBUG subcommand '%s'", name)
}

func errRegister(i int, want, got byte) error {
	return protocol.Errorf("ERR", "TESTFAILED Register %d should be %d but is %d", i, want, got)
}

func errTooFar(n int, off float64) error {
	return protocol.Errorf("ERR", "TESTFAILED Too big error. card:%d abserr:%.0f", n, off)
}
