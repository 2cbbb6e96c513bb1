package dataset

import (
	"context"
	"io"

	"spindle/bgsave"
	"spindle/bgsave/codec"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/engine/data/value/stream"
	"spindle/replication"
)

// A streamer implements replication.Saver with bgsave's encoder.
type streamer struct{ d *Set }

// Prepare implements replication.Saver.
func (s streamer) Prepare(ctx context.Context, replID string, offset int64, only replication.Filter,
	dialect replication.Dialect) (
	stream func(io.Writer, *keyspace.View) error) {
	h := s.d.header()
	if only.NoFunctions {
		h.Functions = nil
	}
	h.Replication = &bgsave.ReplicationState{ID: replID, Offset: offset, StreamDB: s.d.Ends.StreamDB()}
	newest := int(s.d.Settings.Save.Version.Get())
	switch {
	case dialect == replication.ValkeyDialect:
		newest = codec.ValkeyVersion
	case newest == codec.ValkeyVersion: // it is for files
		newest = codec.CommonVersion
	}
	o := bgsave.Options{
		Compress: s.d.Settings.Save.Compress.Get(), Checksum: s.d.Settings.Save.Checksum.Get(),
		Delay: s.d.Settings.Save.SaveDelay.Get(), Header: h, Savers: int(s.d.Settings.Save.SaverConcurrency.Get()),
		Newest: newest, Memory: dialect == replication.MemoryDialect && h.Encodings.Has(value.Stream, value.StreamProducers),
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.d.loadContext, cancel)
	context.AfterFunc(ctx, func() { stop() })
	return func(w io.Writer, view *keyspace.View) error {
		var v bgsave.View = view
		if only.NoKeys {
			v = keyless{view}
		}
		_, err := bgsave.WriteTo(ctx, w, v, o)
		return err
	}
}

// Holds implements replication.Saver.
func (s streamer) Holds() (forms replication.Forms) {
	if s.d.Space.FieldsHaveDeadlines() {
		forms |= replication.FieldDeadlines
	}
	if s.d.Space.Store().Used.Any(value.Module) {
		forms |= replication.Blooms
	}
	if s.d.Space.MessagesRemembered() {
		forms |= replication.Messages
	}
	return forms
}

// Find implements replication.Saver.
func (s streamer) Find(view *keyspace.View, forms replication.Forms) (x replication.Find, found bool) {
	for _, db := range view.DBs() {
		view.Walk(db, 0, 1, func(v value.Value) bool {
			has := replication.FormsOf(codec.Kind(v, codec.CommonVersion)) & forms
			if v.Type() == value.Stream && stream.Of(v).Recalled().Messages > 0 {
				has |= replication.Messages & forms
			}
			if found = has != 0; found {
				x = replication.Find{DB: db, Key: string(v.Key()), Forms: has}
			}
			return !found
		})
		if found {
			break
		}
	}
	return x, found
}

// keyless is a view without keys.
type keyless struct{ bgsave.View }

// DBs implements bgsave.View.
func (keyless) DBs() []int { return nil }
