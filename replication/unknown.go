package replication

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"spindle/bgsave/rdb"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// A command of the primary's that this server does not understand: one of a newer version, or of a module. To pass it
// over would make the data differ for good. So the link stops before it, and the data stay readable.

// understood says whether err came from what a command does, such as WRONGTYPE. An unknown command, a number of
// arguments, a syntax or a payload of RESTORE that this server does not know are not understood.
func understood(spec *command.Spec, err error) bool {
	var e *protocol.Error
	if spec == nil || !errors.As(err, &e) {
		return spec != nil
	}
	if e.Code != "ERR" {
		return true
	}
	if e.Text == rdb.ErrPayload.Error() || e.Text == rdb.ErrPayloadData.Error() {
		return false
	}
	return e.Text != protocol.ErrSyntax.Text && !strings.HasPrefix(e.Text, "wrong number of arguments")
}

// refuse has the primary's stream end before the command that has just failed with err. apply does the rest when the
// turn's batch is over. It answers false for a command that is not of the stream: of a log that is loaded, say.
//
// A transaction whose EXEC met the error has run, but for that command: it counts as applied, and a full copy is asked
// for.
func (f *Follower) refuse(cl *client.Client, err error) bool {
	w := f.wire
	if w == nil || w.cl != cl {
		return false
	}
	if w.refused == nil {
		w.refused, w.ran = err, f.core.Transacting()
		cl.Flags |= client.CloseAfter // nothing more of the batch is run
	}
	return true
}

// stop ends the link because of w.refused. Turn only.
func (w *upstream) stop() {
	f := w.f
	why := "it sent a command that this server does not understand: " + w.refused.Error()
	f.parts.Log.Warning("== CRITICAL == The link to the primary stops: %s", why)
	if w.ran {
		f.known = false
		f.parts.Log.Warning("The command was part of a transaction, the rest of which has run. A full copy is asked for.")
	}
	if f.refusal != why { // each try meets the same command: the explanation comes once
		f.refusal = why
		f.parts.Log.Warning("The data here stay as of offset %d and can be read. With replica-ignore-unknown-commands yes "+
			"such commands are passed over, and the data differ from the primary's.", f.feed.offset)
		go w.tellVersion()
	}
	f.link.Stopped(f.core.SteadyMs(), why)
	f.parts.Changed()
}

// tellVersion tells the log which version the primary is of.
func (w *upstream) tellVersion() {
	var terms Terms
	w.f.core.Do(func() { terms = outside{w.f}.Terms() })
	if version, err := askVersion(w.f.parts.Dial, w.address, terms); err != nil {
		w.f.parts.Log.Notice("The primary %s does not say its version: %s", w.address, err)
	} else {
		w.f.parts.Log.Warning("The primary %s is of version %s.", w.address, version)
	}
}

// askVersion asks the server at address for its version.
func askVersion(dial Dialer, address string, terms Terms) (version string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	conn, err := dial(ctx, address, "")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(askLimit))
	in := bufio.NewReader(conn)
	if step, ok := terms.login(); ok {
		args := make([][]byte, len(step.words))
		for i, word := range step.words {
			args[i] = []byte(word)
		}
		if _, err := conn.Write(protocol.AppendCommand(nil, args)); err != nil {
			return "", err
		}
		if line, err := in.ReadSlice('\n'); err != nil || line[0] != '+' {
			return "", errors.Join(err, errors.New("it answers AUTH with "+string(bytes.TrimSpace(line))))
		}
	}
	if _, err := io.WriteString(conn, "INFO server\r\n"); err != nil {
		return "", err
	}
	about, err := readText(in)
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(about, "\nredis_version:")
	version, _, _ = strings.Cut(rest, "\r\n")
	if !found {
		return "", errors.New("INFO has no redis_version")
	}
	if _, rest, found := strings.Cut(about, "\nvalkey_version:"); found {
		version, _, _ = strings.Cut(rest, "\r\n")
		version += " of Valkey"
	}
	return version, nil
}
