package dataset

import (
	"time"

	"spindle/bgsave"
	"spindle/bgsave/codec"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/internal/setting"
	"spindle/internal/slots"
	"spindle/internal/version"
)

// header returns the facts about this server for a file. Turn only.
func (d *Set) header() bgsave.Header {
	var state *bgsave.ReplicationState
	// While slots move here, the stream has keys that are in no file. When this node has claimed them, files have the
	// keys, but the stream has yet to tell replicas so. A file does not continue the stream then.
	moving := d.Core.Importing() || d.handsOver != nil && d.handsOver()
	if id, offset, db, ok := d.Ends.State(); ok && !moving {
		state = &bgsave.ReplicationState{ID: id, Offset: offset, StreamDB: db}
	}
	return bgsave.Header{
		Replication:   state,
		ServerVersion: version.Redis, CreatedUnix: time.Now().Unix(), UsedMemory: d.Core.UsedMemory(),
		Encodings: d.Space.Store().Used,
		Deadlines: d.Space.FieldsHaveDeadlines(), Functions: d.Scripts.Sources(), Slots: d.slotSizes(),
	}
}

// clockOf returns a function that reads a key's access time or frequency, if the eviction policy uses it.
func (d *Set) clockOf() bgsave.ClockFunc {
	return d.Space.Clocks().Of
}

// baseOptions returns the options for the base of the append-only file. Turn only.
func (d *Set) baseOptions() bgsave.Options {
	o := bgsave.Options{
		Compress: d.Settings.Save.Compress.Get(), Checksum: d.Settings.Save.Checksum.Get(),
		Delay: d.Settings.Save.SaveDelay.Get(), Newest: int(d.Settings.Save.Version.Get()),
		Savers: int(d.Settings.Save.SaverConcurrency.Get()), Header: d.header(), Clock: d.clockOf(),
	}
	return o
}

// limits returns the settings that decide the encodings of loaded and restored values.
func (d *Set) limits() codec.Limits {
	s, sets, zsets, lists := d.Data, d.Common.Sets.Limits(), d.Common.ZSets.Limits(), d.Common.Lists.Limits()
	n := func(v *setting.Int) int { return int(v.Get()) }
	return codec.Limits{
		HashEntries: n(&s.Hashes.Entries), HashValue: n(&s.Hashes.Value),
		SetIntset: sets.IntSet, SetEntries: sets.Entries, SetValue: sets.Value,
		ZSetEntries: zsets.Entries, ZSetValue: zsets.Value,
		ListSize: lists.Fill, ListDepth: lists.Depth,
		StreamBytes: n(&s.Streams.NodeBytes), StreamEntries: n(&s.Streams.NodeEntries),
	}
}

// loadOptions returns the options for loading at start.
func (d *Set) loadOptions(path string) bgsave.LoadOptions {
	return bgsave.LoadOptions{
		NoChecksum: !d.Settings.Save.Checksum.Get(), SkipModuleData: d.Settings.Save.ModuleData.Get() ==
			bgsave.SkipModuleData,
		SkipKeys: d.Settings.Save.UnsupportedKeys.Get() == bgsave.SkipUnsupportedKeys,
		Relaxed:  d.Settings.Save.VersionCheck.Get() == bgsave.VersionRelaxed,
		Limits:   d.limits(), Delay: d.Settings.Save.LoadDelay.Get, Interval: d.Settings.Save.LoadingInterval.Get(),
		Name: path, Log: d.Log, Progress: &d.Loading,
	}
}

// slotSizes returns the slots that have keys, for the head of a file. Turn only.
func (d *Set) slotSizes() (sizes []bgsave.SlotSize) {
	if !d.Space.BySlot() || !d.Space.FieldsHaveDeadlines() { // a file without them is not of version 12
		return nil
	}
	for i := range d.Space.Len() {
		db := d.Space.DB(i)
		for slot := uint16(0); slot < slots.Count && db.Len() > 0; slot++ {
			if n := db.InSlot(slot); n > 0 {
				sizes = append(sizes, bgsave.SlotSize{DB: i, Slot: slot, Keys: n})
			}
		}
	}
	return sizes
}

// skipsSanitize reports whether the client's user has skip-sanitize-payload.
func skipsSanitize(cl *client.Client) bool {
	user, ok := cl.User.(*acl.User)
	return ok && user.Rights().SkipsSanitize()
}
