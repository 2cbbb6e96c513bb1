package bgsave

import (
	"encoding/binary"
	"io"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/value"
	"spindle/internal/crc"
)

// A Dumper writes DUMP's payloads for MIGRATE. Append appends small values in the turn. Write writes a frozen value of
// any size outside the turn, in bounded memory. Only one goroutine may use a Dumper at a time.
type Dumper struct {
	newest int
	packer packer
	sum    uint64
	err    error
}

// Dumper returns a Dumper with the current settings. Turn only.
func (h *Commands) Dumper() *Dumper {
	d := &Dumper{newest: h.newest()}
	d.packer.w.Compress = h.Settings.Compress.Get()
	return d
}

// Append appends v's payload to dst.
func (d *Dumper) Append(dst []byte, v value.Value) []byte {
	from, compress := len(dst), d.packer.w.Compress
	dst, kind := d.packer.append(dst, v, d.newest)
	d.packer.w.Compress = compress
	return rdb.AppendFooter(dst, from, lowest(kind))
}

// Size returns how many bytes Write will write for v.
func (d *Dumper) Size(v value.Value) int {
	compress := d.packer.w.Compress
	n := d.packer.length(nil, v, d.newest)
	d.packer.w.Compress = compress
	return 1 + n + rdb.FooterLen
}

// Write writes v's payload to w in pieces of at most rdb.SpillMax bytes.
// Errors: the first error of w; nothing is written after it.
func (d *Dumper) Write(v value.Value, w io.Writer) error {
	kind, compress := codec.Kind(v, d.newest), d.packer.w.Compress
	d.sum, d.err = 0, nil
	out := &d.packer.w
	spill := func(full []byte) []byte {
		if d.err == nil {
			d.sum = crc.Update64(d.sum, full)
			_, d.err = w.Write(full)
		}
		return full[:0]
	}
	out.Buf = append(make([]byte, 0, rdb.SpillMax), byte(kind))
	out.Spill, out.Stop = spill, func() bool { return d.err != nil }
	d.packer.write(kind, v)
	spill(out.Buf)
	failed := out.Err
	out.Buf, out.Spill, out.Stop, out.Compress, out.Err = nil, nil, nil, compress, nil
	if d.err == nil {
		d.err = failed
	}
	if d.err != nil {
		return d.err
	}
	var footer [rdb.FooterLen]byte
	binary.LittleEndian.PutUint16(footer[:], uint16(lowest(kind)))
	binary.LittleEndian.PutUint64(footer[2:], crc.Update64(d.sum, footer[:2]))
	_, err := w.Write(footer[:])
	return err
}
