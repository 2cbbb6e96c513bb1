package dataset

import (
	"time"
)

// logLatency tells the latency monitor of what the log has waited for.
func (d *Set) logLatency(event string, took time.Duration) {
	if limit := d.LatencyThreshold(); limit > 0 && took >= time.Duration(limit)*time.Millisecond {
		d.Latency(event, took)
	}
}

// switchLog is CONFIG SET appendonly.
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
