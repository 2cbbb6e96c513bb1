package engine

import (
	"strconv"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/setting"
)

// monitorLine returns the line that MONITOR shows for a command: "+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"".
func monitorLine(nowMs, nanos int64, cl *client.Client, args [][]byte) []byte {
	line := strconv.AppendInt([]byte{'+'}, nowMs/1000, 10)
	micros := strconv.Itoa(int(nowMs%1000*1000 + nanos/1000%1000))
	line = append(append(line, '.'), "000000"[len(micros):]...)
	line = append(append(line, micros...), " ["...)
	line = strconv.AppendInt(line, int64(cl.DB), 10)
	line = append(line, ' ')
	switch {
	case cl.Is(client.InScript):
		line = append(line, "lua"...)
	case cl.Is(client.Unix):
		line = append(append(line, "unix:"...), cl.Conn.LocalAddr()...)
	default:
		line = append(line, cl.Addr()...)
	}
	line = append(line, ']')
	for _, a := range args {
		line = setting.AppendQuoted(append(line, ' '), a)
	}
	return append(line, '\r', '\n')
}

// feedMonitors shows a command that has run to all clients under MONITOR.
func (c *Core) feedMonitors(cl *client.Client, spec *command.Spec, args [][]byte) {
	if spec.Flags&(command.SkipMonitor|command.Admin) == 0 {
		c.showMonitors(cl, args)
	}
}

// showMonitors shows a call of cl to all clients under MONITOR.
func (c *Core) showMonitors(cl *client.Client, args [][]byte) {
	line, mark := monitorLine(c.nowMs, c.nanos, cl, args), c.number
	if c.lent != nil || c.stack.depth > 0 {
		mark = c.unitMark()
	}
	if !cl.Is(client.Monitor) {
		c.monitors.Send(mark, nil, line, line)
		return
	}
	cl.Out.Raw(line) // between the replies of its batch
	c.monitors.Send(mark, cl, line, line)
}

// StartMonitor makes cl get every later command.
func (c *Core) StartMonitor(cl *client.Client) {
	c.assertHeld()
	if cl.Is(client.Monitor) {
		return
	}
	cl.Flags |= client.Monitor
	if c.watchers == nil {
		c.watchers = map[*client.Client]*client.Seat{}
	}
	c.watchers[cl] = c.monitors.Add(cl)
}

// StopMonitor undoes StartMonitor.
func (c *Core) StopMonitor(cl *client.Client) {
	c.assertHeld()
	if !cl.Is(client.Monitor) {
		return
	}
	cl.Flags &^= client.Monitor
	c.monitors.Remove(c.watchers[cl])
	delete(c.watchers, cl)
}
