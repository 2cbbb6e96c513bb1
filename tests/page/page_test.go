package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/tests/testkit"
)

const (
	token  = `pa"ss<b>` // a token with awkward characters
	markup = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
)

// serve starts a server with the page and its console.
func serve(t *testing.T, args ...string) (s *testkit.Server, url string) {
	t.Helper()
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	own := []string{
		"--enable-debug-command", "yes", "--admin-address", address, "--admin-token", token,
		"--admin-console-user", "reader",
		"--user", "reader", "on", "nopass", "~*", "&*", "+@read", "+info", "+ping", "+client|list", "-hgetall",
	}
	s = testkit.Start(t, append(own, args...)...)
	return s, "http://" + address
}

// enter opens the page and types the token, as a reader does.
func (b *browser) enter(url string) {
	b.show(url)
	b.await("!document.getElementById('login').hidden")
	b.await("document.activeElement.id === 'token'")
	b.typeText(token)
	b.press("Enter")
	b.await("document.querySelector('#throughput [data-field]')")
}

// load keeps the server busy with a few pipelines until stop.
func load(t *testing.T, s *testkit.Server) (stop func()) {
	over := make(chan struct{})
	var workers sync.WaitGroup
	for range 2 {
		c := s.Dial()
		workers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				var batch [][]any
				for j := range 32 {
					key := "k" + strconv.Itoa((i*32+j)%5000)
					batch = append(batch, []any{"SET", key, strings.Repeat("v", j)}, []any{"GET", key}, []any{"GET", "missing"})
				}
				if _, err := c.Pipeline(batch...); err != nil {
					t.Errorf("the load: %v", err)
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(over); workers.Wait() })
}

// fields returns the figures that the page shows, all from one request to the server.
func fields(b *browser) map[string]string {
	return eval[map[string]string](b, `Object.fromEntries(
		[...document.querySelectorAll('[data-field]')].map((e) => [e.dataset.field, e.dataset.value]))`)
}

// look makes the page ask the server now.
func (b *browser) look() {
	b.t.Helper()
	if alarm := eval[string](b, "look().then(() => document.getElementById('alarm').textContent)"); alarm != "" {
		b.t.Fatalf("the page says: %s", alarm)
	}
}

// growing are fields that only grow.
var growing = []string{
	"total_commands_processed", "keyspace_hits", "keyspace_misses", "eventloop_cycles", "total_connections_received",
	"total_error_replies", "expired_keys", "evicted_keys", "rdb_saves", "longest_turn_usec", "most_commands_per_turn",
	"used_memory_peak", "duties_duration_sum",
}

// moving are fields that differ between two looks at an idle server: each look is a turn, and time passes.
var moving = map[string]float64{ // the part by which they may differ
	"used_memory_rss": 0.2, "mem_fragmentation_ratio": 0.2, "used_memory": 0.02, "used_memory_dataset": 0.02,
	"used_memory_peak": 0.02, "mem_clients_normal": 9, "eventloop_cycles": 0.2, "eventloop_duration_cmd_sum": 0.2,
	"duties_duration_sum": 0.5, "longest_turn_usec": 9, "longest_turn_cpu_usec": 9, "total_commands_processed": 0.01,
}

// since are fields about the last seconds only.
var since = map[string]bool{
	"instantaneous_ops_per_sec": true, "instantaneous_input_kbps": true, "instantaneous_output_kbps": true,
	"instantaneous_eventloop_cycles_per_sec": true, "instantaneous_eventloop_duration_usec": true,
	"client_recent_max_input_buffer": true, "client_recent_max_output_buffer": true,
}

// TestFigures: the panels agree with INFO, under load and after it.
func TestFigures(t *testing.T) {
	b := open(t)
	s, url := serve(t)
	s.Do("CONFIG", "SET", "slowlog-log-slower-than", 0)
	s.Do("RPUSH", "list", "a", "b")
	s.Do("CONFIG", "SET", "slowlog-log-slower-than", 1_000_000)
	s.Do("SET", "large", strings.Repeat("x", 100<<10))
	s.Do("SAVE")
	b.enter(url)
	stop := load(t, s)
	defer stop()
	b.await("paused || (togglePause(), paused)")
	for range 3 {
		time.Sleep(600 * time.Millisecond) // a look is shared for half a second; this gets a new one
		before := s.Info("everything")
		b.look()
		shown := fields(b)
		after := s.Info("everything")
		checked := 0
		for _, name := range growing {
			value, there := shown[name]
			if !there {
				continue
			}
			checked++
			if number(t, value) < number(t, before[name]) || number(t, value) > number(t, after[name]) {
				t.Errorf("%s: %s is shown, INFO said %s before and %s after", name, value, before[name], after[name])
			}
		}
		if checked < 10 {
			t.Fatalf("only %d growing figures are shown: %v", checked, shown)
		}
	}
	b.await("Number(document.querySelector('[data-field=instantaneous_ops_per_sec]').dataset.value) > 0")
	stop()
	s.Do("DEBUG", "SLEEP", "0.1") // done now: a slow machine has many stalls, and the page shows the latest
	keys := s.Do("DBSIZE").Int
	time.Sleep(600 * time.Millisecond)
	b.look()
	shown, said := fields(b), s.Info("everything")
	for name, value := range shown {
		want, there := said[name]
		switch {
		case !there:
			t.Errorf("%s is shown as %s and is no field of INFO", name, value)
		case since[name] || value == want:
		case strings.HasPrefix(name, "memory_purpose_") || moving[name] > 0:
			got, want := number(t, value), number(t, want)
			if diff := got - want; max(diff, -diff) > max(moving[name], 0.25)*max(got, want)+4<<20 {
				t.Errorf("%s: %v is shown, INFO says %v", name, got, want)
			}
		default:
			t.Errorf("%s: %s is shown, INFO says %s", name, value, want)
		}
	}
	for panel, want := range map[string]string{
		"slowlog": "RPUSH list a b", "keyspace": grouped(keys), "saves": "ok", "replicas": "master",
		"clients": "127.0.0.1", "latency": "From the socket read",
		"hotkeys": "missing", "bigkeys": "large", "stalls": "DEBUG SLEEP 0.1",
	} {
		text := eval[string](b, fmt.Sprintf("document.getElementById(%q).textContent", panel))
		if !strings.Contains(text, want) {
			t.Errorf("panel %s does not show %q: %.300s", panel, want, text)
		}
	}
	if wrong := b.complaints(); len(wrong) > 0 {
		t.Errorf("the browser complains: %.500s", wrong)
	}
}

// grouped formats a whole number as the page does: 5,002.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil {
		t.Fatalf("%q is no number", s)
	}
	return f
}

// TestMarkup: names that contain markup are shown as text everywhere.
func TestMarkup(t *testing.T) {
	b := open(t)
	s, url := serve(t, "--slowlog-log-slower-than", "0", "--latency-monitor-threshold", "1")
	s.Do("CLIENT", "SETNAME", strings.ReplaceAll(markup, " ", "/"))
	s.Do("ACL", "SETUSER", strings.ReplaceAll(markup, " ", "/"), "on", "nopass", "~*", "+@all")
	s.Do("SET", markup, strings.Repeat("x", 100<<10))
	s.Do("DEBUG", "SLEEP", "0.05")
	for range 50 {
		s.Do("GETRANGE", markup, 0, 0)
	}
	c := s.Dial()
	c.Must("AUTH", strings.ReplaceAll(markup, " ", "/"), "any")
	b.enter(url)
	b.await("document.getElementById('slowlog').textContent.includes('onerror=')")
	for _, panel := range []string{"clients", "hotkeys", "bigkeys"} {
		b.await("document.getElementById('" + panel + "').textContent.includes('<script>')")
	}
	b.press("/")
	b.await("document.activeElement.id === 'line'")
	b.typeText(`KEYS *`)
	b.press("Enter")
	b.await("document.querySelector('#output .reply')?.textContent.includes('<script>')")
	if n := eval[int](b, "document.querySelectorAll('img, iframe, main script, pre script').length"); n != 0 {
		t.Errorf("%d elements were made of names", n)
	}
	if title := eval[string](b, "document.title"); strings.Contains(title, "owned") {
		t.Errorf("markup ran: the title is %q", title)
	}
	blocked := eval[bool](b, `(() => {
		const e = document.createElement('script');
		e.textContent = 'window.ran = 1';
		document.body.append(e);
		return !window.ran;
	})()`)
	if !blocked {
		t.Error("the policy lets a script run that is not the page's")
	}
}

// TestKeyboard: everything can be reached and done without a mouse.
func TestKeyboard(t *testing.T) {
	b := open(t)
	s, url := serve(t)
	s.Do("SET", "greeting", "hello world")
	b.enter(url)
	b.await("document.querySelector('svg.chart')")
	eval[any](b, "document.activeElement.blur()")
	pressed := func(id string) string {
		return fmt.Sprintf("document.getElementById(%q).getAttribute('aria-pressed') === 'true'", id)
	}
	b.press("2")
	b.await(pressed("day"))
	b.press("1")
	b.await(pressed("minutes"))
	b.press("p")
	b.await(pressed("pause"))
	b.press("t")
	b.await("document.documentElement.dataset.theme === 'light'")
	b.press("t")
	b.await("getComputedStyle(document.body).backgroundColor === 'rgb(15, 19, 24)'")

	reached := map[string]bool{}
	for range 60 {
		b.press("Tab")
		reached[eval[string](b, `(() => {
			const e = document.activeElement;
			return e.id || e.dataset.chart || e.getAttribute('aria-label') || e.className || '';
		})()`)] = true
		seen := eval[bool](b, `(() => {
			const e = document.activeElement;
			return e === document.body || e.className === 'skip' || getComputedStyle(e).outlineStyle !== 'none';
		})()`)
		if !seen {
			t.Errorf("focus cannot be seen on %s", eval[string](b, "document.activeElement.outerHTML.slice(0, 200)"))
		}
	}
	for _, want := range []string{
		"skip", "minutes", "day", "pause", "theme", "Commands a second", "Memory", "Databases", "output", "line",
	} {
		if !reached[want] {
			t.Errorf("Tab does not reach %q, but %v", want, reached)
		}
	}
	eval[any](b, "document.querySelector('[data-chart=Memory]').focus()")
	was := eval[string](b, "document.querySelector('[data-chart=Memory]').getAttribute('aria-label')")
	b.press("ArrowLeft")
	b.press("ArrowLeft")
	b.await(fmt.Sprintf(`document.activeElement.dataset.chart === 'Memory' &&
		document.activeElement.getAttribute('aria-label') !== %s`, strconv.Quote(was)))

	b.press("/")
	b.await("document.activeElement.id === 'line'")
	for _, c := range []struct{ line, class, want string }{
		{`GET greeting`, "reply", `"hello world"`},
		{`SET greeting x`, "wrong", "only takes commands that read"},
		{`HGETALL greeting`, "wrong", "NOPERM"},
		{`CONFIG GET admin-token`, "wrong", "NOPERM"},
	} {
		b.typeText(c.line)
		b.press("Enter")
		b.await(fmt.Sprintf("[...document.querySelectorAll('#output .%s')].at(-1)?.textContent.includes(%s)",
			c.class, strconv.Quote(c.want)))
	}
	b.press("ArrowUp")
	b.await("document.getElementById('line').value === 'CONFIG GET admin-token'")
	b.press("Escape")
	b.await("document.activeElement.id !== 'line'")
	if got := s.Do("GET", "greeting"); got.Text != "hello world" {
		t.Errorf("the console has changed data: %v", got)
	}
}

// TestScreens: nothing is cut off on a desktop or a phone, light or dark. SPINDLE_SCREENS names a folder for
// pictures; the figures then grow for a minute first.
func TestScreens(t *testing.T) {
	b := open(t)
	s, url := serve(t, "--slowlog-log-slower-than", "2000")
	testkit.Pipe(t, s.Dial(), 2000, func(i int) []any {
		return []any{"HSET", "session:" + strconv.Itoa(i%100), "field:" + strconv.Itoa(i), i}
	})
	s.Do("DEBUG", "SLEEP", "0.02")
	testkit.Pipe(t, s.Dial(), 3000, func(i int) []any {
		return []any{"RPUSH", "queue:mail", "message " + strconv.Itoa(i)}
	})
	stop := load(t, s)
	defer stop()
	b.size(1280, 800, "light")
	b.enter(url)
	if dir := os.Getenv("SPINDLE_SCREENS"); dir != "" {
		time.Sleep(time.Minute) // so that the charts have something to show
	}
	b.await("document.querySelectorAll('svg.chart').length >= 6")
	for _, c := range []struct {
		name          string
		width, height int
		theme         string
	}{{"page-1280", 1280, 1500, "light"}, {"page-400", 400, 1500, "dark"}} {
		b.size(c.width, 800, c.theme)
		b.look()
		wide := eval[[]string](b, `[...document.querySelectorAll('body *')]
			.filter((e) => !e.closest('.scroll, svg') && e.className !== 'skip')
			.filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
			.map((e) => e.outerHTML.slice(0, 120))`)
		if len(wide) > 0 {
			t.Errorf("%s: these stand out: %v", c.name, wide)
		}
		if scroll := eval[int](b, "document.documentElement.scrollWidth"); scroll > c.width {
			t.Errorf("%s: the page is %d wide", c.name, scroll)
		}
		png := b.picture(c.width, c.height)
		if len(png) < 10<<10 {
			t.Errorf("%s: a picture of %d bytes", c.name, len(png))
		}
		if dir := os.Getenv("SPINDLE_SCREENS"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, c.name+".png"), png, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
}

// TestHeldTurn: while a command holds the turn, the page says so. It continues when the command is over.
func TestHeldTurn(t *testing.T) {
	b := open(t)
	s, url := serve(t)
	b.enter(url)
	c := s.Dial()
	c.Send("DEBUG", "SLEEP", 6)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	b.await("document.getElementById('alarm').textContent.includes('holds the turn')")
	if _, err := c.Receive(); err != nil {
		t.Fatal(err)
	}
	b.await("document.getElementById('alarm').hidden")
	s.Do("CONFIG", "SET", "busy-reply-threshold", 50)
	c.Send("EVAL", "while true do end", 0)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	b.await("document.getElementById('alarm').textContent.includes('A script runs')")
	s.Do("SCRIPT", "KILL")
	b.await("document.getElementById('alarm').hidden")
}

// TestSlotsAndReplicas: the panels of a cluster node, of a primary with a replica, and of the replica.
func TestSlotsAndReplicas(t *testing.T) {
	b := open(t)
	s, url := serve(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)))
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 8191, 9000, 9000)
	b.enter(url)
	b.await("document.querySelector('#cluster rect.mine')?.getAttribute('width') === '8192'")
	b.await("document.getElementById('cluster').textContent.includes('0–8191 9000')")
	b.await("document.getElementById('cluster').textContent.includes('8,193')")

	primary, primaryURL := serve(t)
	replica, replicaURL := serve(t, "--replicaof", "127.0.0.1", strconv.Itoa(primary.Port))
	replica.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	eval[any](b, "sessionStorage.clear()")
	b.enter(primaryURL)
	b.await(fmt.Sprintf("document.getElementById('replicas').textContent.includes('127.0.0.1:%d')", replica.Port))
	b.enter(replicaURL)
	b.await(fmt.Sprintf("document.querySelector('[data-field=master_host]')?.textContent === '127.0.0.1:%d'",
		primary.Port))
	b.await("document.querySelector('[data-field=master_link_status]').textContent === 'up'")
}
