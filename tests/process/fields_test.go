package process

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestPauseInInfo: INFO clients shows why clients are paused and for how long, as in Valkey 9.1.
func TestPauseInInfo(t *testing.T) {
	for _, kind := range []string{testkit.Ours, testkit.Valkey9} {
		t.Run(kind, func(t *testing.T) {
			s := testkit.Launch(t, testkit.Kind(t, kind))
			look := func(reason, actions string, least, most int) {
				t.Helper()
				f := s.Info("clients")
				left, err := strconv.Atoi(f["paused_timeout_milliseconds"])
				if err != nil || f["paused_reason"] != reason || f["paused_actions"] != actions || left < least || left > most {
					t.Errorf("%s %s %d, %v; want %s %s %d to %d", f["paused_reason"], f["paused_actions"], left, err, reason, actions,
						least, most)
				}
			}
			look("none", "none", 0, 0)
			s.Do("CLIENT", "PAUSE", 600_000, "WRITE")
			look("client_pause", "write", 500_000, 600_000)
			s.Do("CLIENT", "UNPAUSE")
			look("none", "none", 0, 0)
		})
	}
}

// TestExpiredByCycle: expired_keys_active and expired_subkeys_active count keys and fields that expire without being
// accessed.
func TestExpiredByCycle(t *testing.T) {
	s := testkit.Start(t)
	s.Do("DEBUG", "SET-ACTIVE-EXPIRE", 0)
	for _, key := range []string{"a", "b", "c"} {
		s.Do("SET", key, 1, "PX", 1)
		s.Do("HSET", "h", key, 1, "other", 1)
		s.Do("HPEXPIRE", "h", 1, "FIELDS", 1, key)
	}
	count := func(keys, byCycle, fields, fieldsByCycle int) error {
		f := s.Info("stats")
		got := strings.Join([]string{f["expired_keys"], f["expired_keys_active"], f["expired_subkeys"],
			f["expired_subkeys_active"], f["expired_fields"]}, " ")
		return testkit.Equal(got, fmt.Sprintf("%d %d %d %d %d", keys, byCycle, fields, fieldsByCycle, fields))
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "what commands look for lapses", func() error {
		s.Do("GET", "a")
		s.Do("HGET", "h", "a")
		return count(1, 0, 1, 0)
	})
	s.Do("DEBUG", "SET-ACTIVE-EXPIRE", 1)
	testkit.Until(t, testkit.Slowly(10*time.Second), "the rest lapses", func() error { return count(3, 2, 3, 2) })
}

// TestPeakTime: used_memory_peak_time is the time at which used_memory was largest.
func TestPeakTime(t *testing.T) {
	s := testkit.Start(t)
	before := time.Now().Unix()
	s.Do("SET", "k", strings.Repeat("x", 8<<20))
	testkit.Until(t, testkit.Slowly(10*time.Second), "the peak is noted", func() error {
		if peak := s.InfoInt("memory", "used_memory_peak"); peak < 8<<20 {
			return fmt.Errorf("%d", peak)
		}
		return nil
	})
	s.Do("DEL", "k")
	// Until the memory is free, a reply can make another peak.
	testkit.Until(t, testkit.Slowly(10*time.Second), "the value's memory is free", func() error {
		if used := s.InfoInt("memory", "used_memory"); used >= 8<<20 {
			return fmt.Errorf("%d", used)
		}
		return nil
	})
	at := s.InfoInt("memory", "used_memory_peak_time")
	if at < before || at > time.Now().Unix()+1 {
		t.Errorf("used_memory_peak_time:%d, now %d", at, time.Now().Unix())
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "two seconds pass", func() error {
		if now := time.Now().Unix(); now <= at+2 {
			return fmt.Errorf("%d", now)
		}
		return nil
	})
	if later := s.InfoInt("memory", "used_memory_peak_time"); later != at {
		t.Errorf("used_memory_peak_time:%d without a new peak, was %d", later, at)
	}
	if f := s.Info("cpu")["used_active_time_main_thread"]; f == "" || f == "0.000000" {
		t.Errorf("used_active_time_main_thread:%s", f)
	}
}

// TestSyncAttempts: a replica counts its attempts to follow a primary, and the time without the primary's stream.
func TestSyncAttempts(t *testing.T) {
	primary, replica := testkit.Start(t), testkit.Start(t)
	fields := func() string {
		f := replica.Info("replication")
		return f["master_current_sync_attempts"] + " " + f["master_total_sync_attempts"]
	}
	replica.Do("REPLICAOF", "127.0.0.1", primary.Port)
	replica.AwaitInfo(testkit.Slowly(10*time.Second), "replication", "master_link_status", "up")
	if got := fields(); got != "1 1" {
		t.Errorf("%s tries after the first one", got)
	}
	f := replica.Info("replication")
	if f["master_link_up_since_seconds"] == "" || f["total_disconnect_time_sec"] != "0" {
		t.Errorf("up for %q s, lost for %q s", f["master_link_up_since_seconds"], f["total_disconnect_time_sec"])
	}
	primary.Do("CLIENT", "KILL", "TYPE", "replica")
	testkit.Until(t, testkit.Slowly(10*time.Second), "the replica comes back", func() error {
		return testkit.Equal(fields()+" "+replica.Info("replication")["master_link_status"], "1 2 up")
	})
	replica.Do("REPLICAOF", "127.0.0.1", testkit.FreePort(t))
	testkit.Until(t, testkit.Slowly(10*time.Second), "the other primary is tried", func() error {
		if got := fields(); got != "1 1" && got != "2 2" && got != "3 3" {
			return fmt.Errorf("%s tries", got)
		}
		return nil
	})
	if f := replica.Info("replication"); f["master_link_up_since_seconds"] != "" {
		t.Errorf("up for %s s", f["master_link_up_since_seconds"])
	}
}
