// Package bloom is the value of a Bloom filter: a chain of filters that grows, as RedisBloom's type MBbloom-- has it.
//
// Owner: the core writes, inside a turn, through a value.Edit. Elsewhere: a Reader of a frozen value, on any goroutine.
// Never: knows a command, a client or a reply, or copies more than pages of 4 KB for one item.
// Start at bloom.go: the root and its links. plan.go says how large a filter becomes, hash.go where its bits are,
// pages.go is how the bits lie in memory, filter.go asks and adds, header.go is the form in which a chain travels,
// structure.go lets go, copies and measures.
//
// Which bits an item has, how many there are and when the chain grows is interface: a filter must give the same answers
// when it comes from, or goes to, a server with RedisBloom, by RDB, by BF.LOADCHUNK, or command by command. Source:
// what RedisBloom 2.8 publishes of its behaviour: documentation, tests, file format, the constants of its hash and of
// its sizes. None of its code is here.
package bloom
