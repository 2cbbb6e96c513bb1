package scenarios

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"spindle/bench/process"
)

// Info is INFO's fields by name.
type Info map[string]string

// Info returns all fields of the server's INFO.
func (s *Server) Info() (Info, error) {
	v, err := s.Do("INFO", "everything")
	if err != nil {
		return nil, err
	}
	return parseInfo(v.Text), nil
}

func parseInfo(text string) Info {
	info := Info{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":"); ok && !strings.HasPrefix(line, "#") {
			info[name] = value
		}
	}
	return info
}

// Int returns a field as a number. It returns false if the field is missing or not a number.
func (i Info) Int(name string) (int64, bool) {
	n, err := strconv.ParseInt(i[name], 10, 64)
	return n, err == nil
}

// Float is Int for numbers with a fraction.
func (i Info) Float(name string) (float64, bool) {
	n, err := strconv.ParseFloat(i[name], 64)
	return n, err == nil
}

// number returns a field of INFO as a number. The field must exist.
func (s *Server) number(name string) (int64, error) {
	info, err := s.Info()
	if err != nil {
		return 0, err
	}
	n, ok := info.Int(name)
	if !ok {
		return 0, fmt.Errorf("%s: INFO has no number %s (%q)", s.Name, name, info[name])
	}
	return n, nil
}

// Turns describes spindle's longest turn since ResetTurns.
type Turns struct {
	Wall, CPU time.Duration
	HasCPU    bool // the server also counts thread CPU time
	Known     bool
	Long      []longTurn // those with the most CPU time, the longest first
}

// A longTurn is one turn.
type longTurn struct {
	began     int64 // Unix µs
	wall, cpu time.Duration
}

// parseLongTurns parses INFO's long_turns.
func parseLongTurns(line string) (turns []longTurn, err error) {
	for entry := range strings.SplitSeq(line, ";") {
		var began, wall, cpu int64
		if entry == "" {
			continue
		}
		if _, err := fmt.Sscanf(entry, "began=%d,usec=%d,cpu_usec=%d", &began, &wall, &cpu); err != nil {
			return nil, fmt.Errorf("long_turns has %q: %w", entry, err)
		}
		turns = append(turns, longTurn{began, time.Duration(wall) * time.Microsecond, time.Duration(cpu) * time.Microsecond})
	}
	return turns, nil
}

// without returns the length of the longest turn, without the time in which other processes had the processor. A turn's
// length is its CPU time, or its wall time minus the gaps within it if that is less. A gap may hide work of the kernel
// for the turn, so reports also show the CPU time. Turns that are not on the list were no longer than the last one on
// it.
func (t Turns) without(gaps []process.Gap) (longest time.Duration) {
	for _, x := range t.Long {
		end, held := x.began+x.wall.Microseconds(), int64(0)
		for _, g := range gaps {
			held += max(0, min(end, g.To)-max(x.began, g.From))
		}
		longest = max(longest, min(x.cpu, x.wall-time.Duration(held)*time.Microsecond))
	}
	if len(t.Long) == longTurnsKept {
		longest = max(longest, t.Long[longTurnsKept-1].cpu)
	}
	return longest
}

const longTurnsKept = 16 // by the server

// ResetTurns resets the longest turn. After it, spindle also measures the CPU time of turns, with two system calls
// each. So ResetTurns is for scenarios about turns, not about CPU per request.
func (s *Server) ResetTurns() error {
	if s.Kind == Spindle {
		if _, err := s.Do("CONFIG", "SET", "measure-turn-cpu", "yes"); err != nil {
			return err
		}
	}
	_, err := s.Do("CONFIG", "RESETSTAT")
	return err
}

// Turns returns the longest turn. For Redis it is unknown.
func (s *Server) Turns() (t Turns, err error) {
	if s.Kind != Spindle {
		return t, nil
	}
	info, err := s.Info()
	if err != nil {
		return t, err
	}
	wall, known := info.Int("longest_turn_usec")
	cpu, hasCPU := info.Int("longest_turn_cpu_usec")
	long, err := parseLongTurns(info["long_turns"])
	if err != nil {
		return t, err
	}
	return Turns{Long: long, Wall: time.Duration(wall) * time.Microsecond, CPU: time.Duration(cpu) * time.Microsecond,
		HasCPU: hasCPU && cpu > 0, Known: known}, nil
}

// fromAdmin fetches path from the admin address, which may take up to limit to produce the reply.
func (s *Server) fromAdmin(path string, limit time.Duration) ([]byte, error) {
	client := http.Client{Timeout: limit + time.Minute}
	response, err := client.Get("http://" + s.Admin + path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, response.Status)
	}
	return io.ReadAll(response.Body)
}

// Metrics returns the samples of /metrics that have no labels.
func (s *Server) Metrics() (map[string]float64, error) {
	text, err := s.fromAdmin("/metrics", 0)
	return parseMetrics(string(text)), err
}

func parseMetrics(text string) map[string]float64 {
	metrics := map[string]float64{}
	for line := range strings.SplitSeq(text, "\n") {
		name, value, ok := strings.Cut(line, " ")
		if !ok || name == "#" || strings.Contains(name, "{") {
			continue
		}
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			metrics[name] = n
		}
	}
	return metrics
}

// RSS returns the server's resident memory.
func (s *Server) RSS() int64 { return process.RSS(s.PID) }

// until calls done every interval until it returns true.
func (s *Server) until(limit, interval time.Duration, what string, done func() (bool, error)) (time.Duration, error) {
	began := time.Now()
	for {
		ok, err := done()
		if err != nil {
			return 0, err
		}
		took := time.Since(began)
		if ok {
			return took, nil
		}
		if took > limit {
			return 0, fmt.Errorf("%s: %s did not come within %v", s.Name, what, limit)
		}
		select {
		case <-s.env.Context.Done():
			return 0, s.env.Context.Err()
		case <-time.After(interval):
		}
	}
}
