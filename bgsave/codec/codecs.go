package codec

// codecs lists all types except strings.
var codecs = []*Codec{
	&listCodec,
	&streamCodec,
	&setCodec,
	&hashCodec,
	&zsetCodec,
	&bloomCodec,
}
