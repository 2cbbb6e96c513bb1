package dataset

import (
	"time"
)

// logLatency reports a wait of the log to the latency monitor.
func (d *Set) logLatency(event string, took time.Duration) {
	if limit := d.LatencyThreshold(); limit > 0 && took >= time.Duration(limit)*time.Millisecond {
		d.Latency(event, took)
	}
}

// switchLog implements CONFIG SET appendonly.
func (d *Set) switchLog() error {
	if d.Settings.Log.On.Get() {
		if d.AOF.TurnOn() != nil {
			return errTurnOn
		}
	} else {
		d.AOF.TurnOff()
	}
	d.Changed()
	return nil
}
