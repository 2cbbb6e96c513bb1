// Package bloom is the value of a Bloom filter: a chain of filters that grows, like RedisBloom's type MBbloom--.
//
// Owner: the core writes, inside a turn, through a value.Edit.
// Elsewhere: a Reader of a frozen value, on any goroutine.
// Never: knows a command, a client or a reply, or copies more than pages of 4 KB for one item.
// Start at bloom.go: the root and its links. plan.go sets a filter's size, hash.go the places of its bits. pages.go is
// the bits in memory, filter.go looks up and adds. header.go is the form of a chain in BF.SCANDUMP. structure.go frees,
// copies and measures.
//
// The bits of an item, their number and the growth of a chain are part of the interface. A filter may be moved between
// servers by RDB, by BF.LOADCHUNK or command by command. A server with RedisBloom and this server must give the same
// answers for the same filter.
// Source: what RedisBloom 2.8 publishes about its behaviour. That is documentation, tests, file format, and the
// constants of its hash and of its sizes. None of its code is here.
package bloom
