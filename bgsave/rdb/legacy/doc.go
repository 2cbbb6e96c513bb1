// Package legacy reads two packed formats of old RDB files, which no current server writes. Servers up to 6.2 wrote
// ziplists. Servers from 3.2 to 6.2 also wrote ziplists as nodes of quicklists. Servers up to 2.4 wrote zipmaps.
//
// Owner: the loading goroutine. The functions are pure, and the bytes stay the caller's.
// Never: writes these formats, or reads outside the given bytes, whatever they hold.
// Start at ziplist.go.
package legacy
