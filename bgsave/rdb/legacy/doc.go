// Package legacy reads the compact formats that RDB files of older servers hold and nothing writes any more: ziplist
// (up to 6.2, and inside the quicklists of 3.2 to 6.2) and zipmap (up to 2.4).
//
// Owner: whoever loads; it is pure functions over bytes that stay the caller's.
// Never: writes these formats, or reads outside the bytes it was given, whatever they say.
// Start at ziplist.go.
package legacy
