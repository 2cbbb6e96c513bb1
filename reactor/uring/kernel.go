package uring

import "unsafe"

// The kernel's numbers and layouts, as in linux/io_uring.h. Linux 6.1 knows all of them except request.total.

const (
	setupCompletionEntries = 1 << 3  // the number of completions is given
	setupDisabled          = 1 << 6  // nothing runs before registerEnable
	setupSubmitAll         = 1 << 7  // a request that is refused does not stop those after it
	setupCoopTaskrun       = 1 << 8  // work does not interrupt the thread
	setupSingleIssuer      = 1 << 12 // one thread alone calls Enter
	setupDeferTaskrun      = 1 << 13 // work waits for Enter (uring.R1)

	featureSingleMap = 1 << 0
	featureNoDrop    = 1 << 1

	offsetQueues   = 0
	offsetRequests = 0x10000000

	enterGetEvents  = 1 << 0
	enterRegistered = 1 << 4 // the ring is named by its index in the thread's list

	registerEnable     = 12
	registerRings      = 20
	registerBufferRing = 22

	opPoll   = 6
	opCancel = 14
	opClose  = 19
	opSend   = 26
	opRecv   = 27

	requestSelectBuffer = 1 << 5
	requestSkipSuccess  = 1 << 6 // no completion unless it fails

	recvMultishot = 1 << 1 // in ioprio
	pollMultishot = 1 << 0 // in length

	completionBuffer      = 1 << 0
	completionMore        = 1 << 1
	completionRest        = 1 << 2
	completionBufferShift = 16
)

// params are struct io_uring_params.
type params struct {
	sqEntries, cqEntries, flags, cpu, idle, features, wq uint32
	_                                                    [3]uint32
	sqOff                                                struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cqOff struct {
		head, tail, mask, entries, overflow, completions, flags, _ uint32
		_                                                          uint64
	}
}

// A request is struct io_uring_sqe.
//
//	0    1      2       4    8        16        24       28        32     40      42       44       48
//	+----+------+-------+----+--------+---------+--------+---------+------+-------+--------+--------+--------+
//	| op | flags| ioprio| fd | offset | address | length | opFlags | user | group | unused | total  | unused |
//	+----+------+-------+----+--------+---------+--------+---------+------+-------+--------+--------+--------+
type request struct {
	op, flags uint8
	ioprio    uint16
	fd        int32
	offset    uint64
	address   uint64
	length    uint32
	opFlags   uint32
	user      uint64
	group     uint16
	_         uint16
	total     uint32
	_         [2]uint64
}

const (
	requestSize    = 64
	completionSize = 16
)

// bufferRing is struct io_uring_buf_reg.
type bufferRing struct {
	address uint64
	entries uint32
	group   uint16
	_       uint16
	_       [3]uint64
}

// A bufferEntry is struct io_uring_buf. In the first entry, tail belongs to the ring: how many buffers have been given.
type bufferEntry struct {
	address uint64
	length  uint32
	id      uint16
	tail    uint16
}

// ringUpdate is struct io_uring_rsrc_update.
type ringUpdate struct {
	offset uint32
	_      uint32
	data   uint64
}

var (
	_ [120]byte            = [unsafe.Sizeof(params{})]byte{}
	_ [requestSize]byte    = [unsafe.Sizeof(request{})]byte{}
	_ [completionSize]byte = [unsafe.Sizeof(Completion{})]byte{}
	_ [40]byte             = [unsafe.Sizeof(bufferRing{})]byte{}
	_ [16]byte             = [unsafe.Sizeof(bufferEntry{})]byte{}
	_ [16]byte             = [unsafe.Sizeof(ringUpdate{})]byte{}
)
