package codec

// codecs are all types but strings, which need no reading.
var codecs = []*Codec{
	&listCodec,
	&streamCodec,
	&setCodec,
	&hashCodec,
	&zsetCodec,
	&bloomCodec,
}
