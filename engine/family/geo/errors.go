package geo

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errUnit        = &protocol.Error{Code: "ERR", Text: "unsupported unit provided. please use M, KM, FT, MI"}
	errRadius      = &protocol.Error{Code: "ERR", Text: "need numeric radius"}
	errNegative    = &protocol.Error{Code: "ERR", Text: "radius cannot be negative"}
	errWidth       = &protocol.Error{Code: "ERR", Text: "need numeric width"}
	errHeight      = &protocol.Error{Code: "ERR", Text: "need numeric height"}
	errBoxSigned   = &protocol.Error{Code: "ERR", Text: "height or width cannot be negative"}
	errCorners     = &protocol.Error{Code: "ERR", Text: "invalid number of vertices"}
	errFewCorners  = &protocol.Error{Code: "ERR", Text: "GEOSEARCH BYPOLYGON must have at least 3 vertices"}
	errMember      = &protocol.Error{Code: "ERR", Text: "could not decode requested zset member"}
	errCount       = &protocol.Error{Code: "ERR", Text: "COUNT must be > 0"}
	errAny         = &protocol.Error{Code: "ERR", Text: "the ANY argument requires COUNT argument"}
	errStoreRadius = &protocol.Error{Code: "ERR",
		Text: "STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options"}
	errStoreSearch = &protocol.Error{Code: "ERR",
		Text: "GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"}
)

func errPoint(lon, lat string) error {
	return protocol.Errorf("ERR", "invalid longitude,latitude pair %s,%s", lon, lat)
}

func errOneCenter(command []byte) error {
	return protocol.Errorf("ERR", "exactly one of FROMMEMBER or FROMLONLAT can be specified for %s", command)
}

func errOneShape(command []byte) error {
	return protocol.Errorf("ERR", "exactly one of BYRADIUS and BYBOX can be specified for %s", command)
}
