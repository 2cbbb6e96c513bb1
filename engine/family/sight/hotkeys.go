package sight

import (
	"strconv"

	"spindle/engine/command"
)

// The number of keys that HOTKEYS GET shows: by default, and at most.
const (
	hotKeysShown = 20
	hotKeysMost  = 256
)

// hotKeysGet is HOTKEYS GET [COUNT n]. Replies: the most used keys, the hottest first, as maps: key, db, share in
// percent, and reads, writes, bytes, cpu-usec per second. All figures are estimates from samples.
func (f *family) hotKeysGet(c *command.Context) error {
	n, err := countOf(c, hotKeysShown, hotKeysMost)
	if err != nil {
		return err
	}
	top, r := f.HotKeys().Top(n), c.Reply
	rate := func(name string, v float64) {
		r.BulkString(name)
		r.DoubleText(strconv.AppendFloat(nil, v, 'f', 2, 64))
	}
	r.Array(len(top))
	for i := range top {
		k := &top[i]
		r.Map(7)
		r.BulkString("key")
		r.BulkString(k.Key)
		r.BulkString("db")
		r.Int(int64(k.DB))
		rate("share", k.Share*100)
		rate("reads", k.Reads)
		rate("writes", k.Writes)
		rate("bytes", k.Bytes)
		rate("cpu-usec", k.CPU*1e6)
	}
	return nil
}

// hotKeysReset is HOTKEYS RESET. It drops all samples.
func (f *family) hotKeysReset(c *command.Context) error {
	f.HotKeys().Reset()
	c.Reply.OK()
	return nil
}

func hotKeysHelp(c *command.Context) error {
	command.Help(c,
		"GET [COUNT <count>]",
		"    The <count> keys that are used most (default: 20, at most 256), from",
		"    samples that fade with a half-life of ten seconds. <share> is in percent",
		"    of all uses of keys; reads, writes, bytes and cpu-usec are per second.",
		"    Of a key at most 512 bytes are shown.",
		"RESET",
		"    Forget what was seen.",
	)
	return nil
}
