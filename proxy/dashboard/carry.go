package dashboard

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"spindle/internal/number"
)

// openPrimary connects to a server and checks that it is a primary.
func (d *Dashboard) openPrimary(ctx context.Context, address string) (*link, error) {
	l, err := d.dialer.open(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := l.isPrimary(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// isPrimary returns an error if the server is a replica.
func (l *link) isPrimary() error {
	v, err := l.ask("ROLE")
	if err == nil && (len(v.Elems) == 0 || v.Elems[0].Text != "master") {
		err = fmt.Errorf("%s is a replica, and was the primary", l.address)
	}
	return err
}

// scanCount is the COUNT of a SCAN, and keysAtOnce is the maximum number of keys of a MIGRATE.
const (
	scanCount  = 1000
	keysAtOnce = 64
)

// scan passes the wanted keys of all databases to see, some at a time. It selects the database before it calls see. A
// key that exists during the whole scan is passed.
func (l *link) scan(ctx context.Context, wanted func(key string) bool, see func(db int, keys []string) error) error {
	fields, err := l.info("keyspace")
	if err != nil {
		return err
	}
	var databases []int
	for field, value := range fields {
		n, ok := number.ParseInt([]byte(strings.TrimPrefix(field, "db")))
		if ok && strings.HasPrefix(field, "db") && keysIn(value) > 0 {
			databases = append(databases, int(n))
		}
	}
	slices.Sort(databases)
	for _, db := range databases {
		if _, err := l.ask("SELECT", db); err != nil {
			return err
		}
		for cursor := "0"; ; {
			if err := ctx.Err(); err != nil {
				return err
			}
			v, err := l.ask("SCAN", cursor, "COUNT", scanCount)
			if err != nil {
				return err
			}
			if len(v.Elems) != 2 {
				return fmt.Errorf("%s: a reply of SCAN: %.100s", l.address, v)
			}
			var found []string
			for _, key := range v.Elems[1].Elems {
				if wanted(key.Text) {
					found = append(found, key.Text)
				}
			}
			for keys := range slices.Chunk(found, keysAtOnce) {
				if err := see(db, keys); err != nil {
					return err
				}
			}
			if cursor = v.Elems[0].Text; cursor == "0" {
				break
			}
		}
	}
	return nil
}

// A carrier moves keys from one server to another by MIGRATE, at the move's pace.
type carrier struct {
	w      *mover
	from   *link
	target string
	// If old is true and both servers have a key, the target's copy stays, and the source's copy is removed
	// (dashboard.M2). If old is false, the source's copy replaces the target's: in a cluster the source serves a key as
	// long as it has it.
	old bool
}

// move moves keys of the selected database and counts them.
func (c *carrier) move(ctx context.Context, db int, keys []string) error {
	began := time.Now()
	sizes, err := c.measure(keys)
	if err != nil {
		return err
	}
	if err := c.migrate(db, keys); busy(err) {
		for _, key := range keys { // the target already has one of them
			if err := c.moveOne(db, key); err != nil {
				return err
			}
		}
	} else if err != nil {
		return err
	}
	w := c.w
	w.done.Keys += int64(len(keys))
	w.done.Bytes += sizes
	w.report(ctx, "", nil)
	for {
		w.refresh(ctx)
		if w.move == nil || w.move.Pace <= 0 {
			return nil
		}
		due := time.Duration(float64(len(keys))/float64(w.move.Pace)*float64(time.Second)) - time.Since(began)
		if due <= 0 {
			return nil
		}
		if err := wait(ctx, min(due, refreshTime)); err != nil {
			return err
		}
	}
}

// measure returns the memory that keys take at the source.
func (c *carrier) measure(keys []string) (bytes int64, err error) {
	for _, key := range keys {
		c.from.Send("MEMORY", "USAGE", key, "SAMPLES", 1)
	}
	for range keys {
		v, err := c.from.Receive()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", c.from.address, err)
		}
		bytes += v.Int // 0 for a deleted key, and for a user without this right
	}
	return bytes, nil
}

func (c *carrier) moveOne(db int, key string) error {
	err := c.migrate(db, []string{key})
	if !busy(err) {
		return err
	}
	return c.w.d.order(c.from, "UNLINK", key)
}

// migrate sends one MIGRATE. Keys that do not exist cause no error.
func (c *carrier) migrate(db int, keys []string) error {
	d := &c.w.d.dialer
	host, port, err := net.SplitHostPort(c.target)
	if err != nil {
		return err
	}
	args := []any{"MIGRATE", host, port, "", db, d.timeout.Milliseconds()}
	if !c.old {
		args = append(args, "REPLACE")
	}
	switch {
	case d.password == "":
	case d.user == "":
		args = append(args, "AUTH", d.password)
	default:
		args = append(args, "AUTH2", d.user, d.password)
	}
	args = append(args, "KEYS")
	for _, key := range keys {
		args = append(args, key)
	}
	return c.w.d.order(c.from, args...)
}

// busy reports whether MIGRATE was refused because the target has a key of the same name.
func busy(err error) bool { return errorContains(err, "BUSYKEY") }
