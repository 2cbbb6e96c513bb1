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

// enter opens the page and types the token, as an operator does.
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

// fields returns the figures that the page shows. All come from one request to the server.
func fields(b *browser) map[string]string {
	return eval[map[string]string](b, `Object.fromEntries(
		[...document.querySelectorAll('[data-field]')].map((e) => [e.dataset.field, e.dataset.value]))`)
}

// look makes the page query the server now, and waits until the page has drawn the reply.
func (b *browser) look() {
	b.t.Helper()
	looks := eval[int](b, `(() => {
		document.dispatchEvent(new KeyboardEvent('keydown', { key: 'r' }));
		return Number(document.body.dataset.looks);
	})()`)
	b.await(fmt.Sprintf("Number(document.body.dataset.looks) > %d", looks))
}

// pause makes the page query the server only when the test calls look.
func (b *browser) pause() {
	b.t.Helper()
	b.await(`document.getElementById('pause').getAttribute('aria-pressed') === 'true' ||
		(document.getElementById('pause').click(), false)`)
	b.look()
}

// growing lists fields that only grow.
var growing = []string{
	"total_commands_processed", "keyspace_hits", "keyspace_misses", "eventloop_cycles", "total_connections_received",
	"total_error_replies", "expired_keys", "evicted_keys", "rdb_saves", "longest_turn_usec", "most_commands_per_turn",
	"used_memory_peak", "duties_duration_sum",
}

// moving lists fields that differ between two queries of an idle server: each query takes a turn, and time passes.
var moving = map[string]float64{ // the relative difference that is allowed
	"used_memory_rss": 0.2, "mem_fragmentation_ratio": 0.2, "used_memory": 0.02, "used_memory_dataset": 0.02,
	"used_memory_peak": 0.02, "mem_clients_normal": 9, "eventloop_cycles": 0.2, "eventloop_duration_cmd_sum": 0.2,
	"duties_duration_sum": 0.5, "uptime_in_seconds": 9, "longest_turn_usec": 9, "longest_turn_cpu_usec": 9,
	"total_commands_processed": 0.01,
}

// since lists fields that are only about the last seconds.
var since = map[string]bool{
	"instantaneous_ops_per_sec": true, "instantaneous_input_kbps": true, "instantaneous_output_kbps": true,
	"instantaneous_eventloop_cycles_per_sec": true, "instantaneous_eventloop_duration_usec": true,
	"client_recent_max_input_buffer": true, "client_recent_max_output_buffer": true,
}

// TestFigures: the panels agree with INFO, under load and after it.
func TestFigures(t *testing.T) {
	t.Parallel()
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
	b.pause()
	for range 3 {
		time.Sleep(600 * time.Millisecond) // the server reuses its figures for half a second
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
		"slowlog": "RPUSH list a b", "keys": grouped(keys), "persistence": "ok", "replication": "primary",
		"clients": "127.0.0.1", "latency": "From the socket read", "turns": "DEBUG SLEEP 0.1", "server": "process",
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

// timeIn returns the time in the name of a chart.
func timeIn(label string) string {
	_, rest, _ := strings.Cut(label, " at ")
	at, _, _ := strings.Cut(rest, ": ")
	return at
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
	t.Parallel()
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
	b.await("document.getElementById('slowlog').innerHTML.includes('&lt;img')")
	for _, panel := range []string{"clients", "keys"} {
		b.await("document.getElementById('" + panel + "').innerHTML.includes('&lt;img')")
	}
	b.press("/")
	b.await("document.activeElement.id === 'line'")
	b.typeText(`KEYS *`)
	b.press("Enter")
	b.await("document.querySelector('#output .reply')?.textContent.includes('<script>')")
	if n := eval[int](b, "document.querySelectorAll('img:not(header img), iframe, main script, pre script').length"); n !=
		0 {
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
	t.Parallel()
	b := open(t)
	s, url := serve(t)
	s.Do("SET", "greeting", "hello world")
	b.enter(url)
	b.await("Number(document.querySelector('.chart').dataset.points) >= 4")
	eval[any](b, "document.activeElement.blur()")
	pressed := func(id string) string {
		return fmt.Sprintf("document.getElementById(%q).getAttribute('aria-pressed') === 'true'", id)
	}
	for key, id := range map[string]string{"2": "hour", "3": "day"} {
		b.press(key)
		b.await(pressed(id))
	}
	b.press("1")
	b.await(pressed("minutes"))
	b.press("p")
	b.await(pressed("pause"))
	b.press("t")
	b.await("document.documentElement.dataset.theme === 'light'")
	b.press("t")
	b.await("getComputedStyle(document.body).backgroundColor === 'rgb(15, 19, 24)'")

	reached := map[string]bool{}
	for range 120 {
		b.press("Tab")
		reached[eval[string](b, `(() => {
			const e = document.activeElement;
			return e.id || e.dataset.chart || e.getAttribute('aria-label') || e.hash || e.className || e.textContent;
		})()`)] = true
		seen := eval[bool](b, `(() => {
			const e = document.activeElement;
			return e === document.body || e.className === 'skip' || getComputedStyle(e).outlineStyle !== 'none';
		})()`)
		if !seen {
			t.Errorf("focus cannot be seen on %s", eval[string](b, "document.activeElement.outerHTML.slice(0, 200)"))
		}
	}
	for _, want := range []string{"#main", "minutes", "hour", "day", "pause", "theme", "#throughput", "#replication",
		"Commands", "Latency", "Memory by purpose", "Turns and stalls", "Keys", "output", "line"} {
		if !reached[want] {
			t.Errorf("Tab does not reach %q, but %v", want, reached)
		}
	}
	nameless := eval[[]string](b, `[...document.querySelectorAll('button, a, input, [tabindex="0"], [role=img], section, table')]
		.filter((e) => e.getClientRects().length && !e.getAttribute('aria-label') && !e.getAttribute('aria-labelledby') &&
			!e.labels?.length && !e.textContent.trim())
		.map((e) => e.outerHTML.slice(0, 120))`)
	if len(nameless) > 0 {
		t.Errorf("a screen reader has no name for %v", nameless)
	}
	label := func(chart string) string {
		return eval[string](b, fmt.Sprintf("document.querySelector('[data-chart=%q]').getAttribute('aria-label')", chart))
	}
	eval[any](b, "document.querySelector('[data-chart=\"Memory by purpose\"]').focus()")
	was, other := label("Memory by purpose"), label("Commands")
	b.press("ArrowLeft")
	b.press("ArrowLeft")
	if now := label("Memory by purpose"); now == was || label("Commands") == other {
		t.Errorf("the arrow keys do not move the cross-hair of all charts: %s", now)
	}
	if at, also := timeIn(label("Memory by purpose")), timeIn(label("Commands")); at != also {
		t.Errorf("the cross-hair is at %s and at %s", at, also)
	}

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
	eval[any](b, "document.getElementById('line').value = ''")
	for _, c := range []struct{ typed, becomes string }{
		{"slo", "SLOWLOG "}, {"g", "SLOWLOG GET "}, {"", "SLOWLOG GET "},
	} {
		b.typeText(c.typed)
		b.press("Tab")
		b.await(fmt.Sprintf("document.getElementById('line').value === %q", c.becomes))
	}
	eval[any](b, "document.getElementById('line').value = ''")
	b.typeText("help latency ")
	b.press("Tab") // several words are possible: they are shown
	b.await("[...document.querySelectorAll('#output .soft')].at(-1)?.textContent.includes('latency histogram')")
	b.press("Escape")
	b.await("document.activeElement.id !== 'line'")
	if got := s.Do("GET", "greeting"); got.Text != "hello world" {
		t.Errorf("the console has changed data: %v", got)
	}
}

// cutText returns the texts that their boxes truncate or that extend beyond the window.
const cutText = `[...document.querySelectorAll('body *')]
	.filter((e) => e.getClientRects().length && !e.closest('.uplot, svg, pre, .skip'))
	.filter((e) => e.getBoundingClientRect().right > innerWidth + 1 ||
		e.clientWidth && e.scrollWidth > e.clientWidth + 1 ||
		e.parentElement.clientWidth && e.getBoundingClientRect().right > e.parentElement.getBoundingClientRect().right + 1)
	.map((e) => e.outerHTML.slice(0, 160))`

// screens are the pages that the test checks. Those with a picture are shown in doc/.
var screens = []struct {
	width, height int
	theme         string
	picture       string
}{
	{400, 1700, "light", ""}, {400, 1700, "dark", "live-400.png"}, {1280, 1500, "light", "live-1280.png"},
	{1280, 1500, "dark", ""}, {1920, 1500, "dark", "live-1920.png"}, {1920, 1500, "light", ""},
}

// TestScreens: no text is truncated on a phone, a desktop and a wall screen, light and dark. Every chart has its axes.
// If SPINDLE_SCREENS names a folder for pictures, the figures first grow for some minutes.
func TestScreens(t *testing.T) {
	t.Parallel()
	b := open(t)
	s, url := serve(t, "--slowlog-log-slower-than", "2000", "--maxmemory", "256mb", "--appendonly", "yes")
	dir := os.Getenv("SPINDLE_SCREENS")
	populate(t, s)
	stop := load(t, s)
	defer stop()
	b.size(1280, 800, "light")
	b.enter(url)
	if dir != "" {
		live(t, s)
	}
	b.await("document.querySelectorAll('.chart .uplot').length >= 10")
	for _, c := range screens {
		name := fmt.Sprintf("%d %s", c.width, c.theme)
		b.size(c.width, 800, c.theme)
		b.look()
		b.await(fmt.Sprintf("document.querySelectorAll('main > .column').length === %d",
			map[int]int{400: 1, 1280: 2, 1920: 3}[c.width]))
		if cut := eval[[]string](b, cutText); len(cut) > 0 {
			t.Errorf("%s: these are cut: %s", name, strings.Join(cut, "\n"))
		}
		if scroll := eval[int](b, "document.documentElement.scrollWidth"); scroll > c.width {
			t.Errorf("%s: the page is %d wide", name, scroll)
		}
		for _, without := range eval[[]string](b, `[...document.querySelectorAll('.chart')].filter((e) => e.offsetParent)
			.filter((e) => e.querySelectorAll('.u-axis').length !== 2 || !e.querySelector('canvas')?.width)
			.map((e) => e.dataset.chart)`) {
			t.Errorf("%s: the chart %s has no axes", name, without)
		}
		eval[any](b, "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))") // now drawn
		png := b.picture(c.width, c.height)
		if len(png) < 10<<10 {
			t.Errorf("%s: a picture of %d bytes", name, len(png))
		}
		if dir != "" && c.picture != "" {
			if err := os.WriteFile(filepath.Join(dir, c.picture), png, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	if wrong := b.complaints(); len(wrong) > 0 {
		t.Errorf("the browser complains: %.500s", wrong)
	}
}

// populate makes data of several types, with names of any length, and entries of each log.
func populate(t *testing.T, s *testkit.Server) {
	testkit.Pipe(t, s.Dial(), 20_000, func(i int) []any {
		return []any{"HSET", "session:" + strconv.Itoa(i%100), "field:" + strconv.Itoa(i), i}
	})
	testkit.Pipe(t, s.Dial(), 3000, func(i int) []any {
		return []any{"RPUSH", "queue:mail", "message " + strconv.Itoa(i)}
	})
	long := "tenant:" + strings.Repeat("0123456789", 12) + ":profile"
	s.Do("SET", long, strings.Repeat("x", 100<<10))
	testkit.Pipe(t, s.Dial(), 20_000,
		func(i int) []any { return []any{"ZADD", "board:weekly", i, "player:" + strconv.Itoa(i)} })
	s.Do("DEBUG", "SLEEP", "0.02")
	s.Do("SORT", "queue:mail", "ALPHA")
	for range 20 {
		s.Ask("INCR", "queue:mail")
		s.Do("GETRANGE", long, 0, 10)
	}
}

// live causes activity for some minutes, so that the charts have something to show.
func live(t *testing.T, s *testkit.Server) {
	pause := func() { time.Sleep(20 * time.Second) }
	for round := range 6 {
		pause()
		switch round {
		case 0:
			s.Do("BGSAVE")
		case 1:
			s.Do("CONFIG", "SET", "hz", "20")
		case 2:
			s.Do("KEYS", "*")
			s.Do("DEBUG", "SLEEP", "0.4")
		case 3:
			s.Do("BGREWRITEAOF")
		case 4:
			s.Do("DEBUG", "SLEEP", "1.2")
		}
	}
}

// TestCharts: a drag zooms all charts, a click in the legend hides a series, and a command's own latency can be shown.
// Lines have gaps where nothing was measured.
func TestCharts(t *testing.T) {
	t.Parallel()
	b := open(t)
	s, url := serve(t)
	s.Do("SET", "k", "v")
	b.size(1280, 800, "light")
	b.enter(url)
	b.await("Number(document.querySelector('.chart').dataset.points) >= 4")
	b.pause()
	box := eval[struct{ X, Y, Width float64 }](b,
		"document.querySelector('.chart .u-over').getBoundingClientRect().toJSON()")
	mouse := func(kind string, x float64, buttons int) {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": box.Y + 40, "button": "left",
			"buttons": buttons, "clickCount": 1}, nil)
	}
	mouse("mouseMoved", box.X+box.Width*0.5, 0)
	mouse("mousePressed", box.X+box.Width*0.5, 1)
	mouse("mouseMoved", box.X+box.Width*0.7, 1)
	mouse("mouseMoved", box.X+box.Width*0.8, 1)
	mouse("mouseReleased", box.X+box.Width*0.8, 0)
	b.await("!document.getElementById('unzoom').hidden")
	b.press("0")
	b.await("document.getElementById('unzoom').hidden")

	legend := "[...document.querySelectorAll('#throughput .legend button')].find((e) => e.textContent.startsWith('error'))"
	eval[any](b, legend+".click()")
	b.await(legend + ".getAttribute('aria-pressed') === 'false'")

	testkit.Until(t, testkit.Slowly(30*time.Second), "the history of SET", func() error {
		status, body, _ := visit{path: "/live/command?name=set", header: bearing}.make(t, url)
		if status != 200 || !strings.Contains(body, `"p99":[`) {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	b.await(
		"[...document.querySelectorAll('#latency button.pick')].some((e) => e.textContent === 'set' && (e.click(), true))")
	b.await("document.querySelector('[data-chart=set] .u-axis')?.offsetParent && " +
		"document.querySelector('#latency').textContent.includes('SET the last hour')")

	gaps := eval[[]any](b, `import('/live/charts.js').then(({ withGaps }) =>
		withGaps({ step: 1, at: [1, 2, 7, 8], ops: [5, 6, 7, null] })).then((h) => [h.at, h.ops])`)
	if got := fmt.Sprint(gaps); got != "[[1 2 3 7 8] [5 6 <nil> 7 <nil>]]" {
		t.Errorf("a history with a gap is drawn as %s", got)
	}
}

// TestTables: a click on a heading sorts, and typing filters. A long name is shown with its begin and end, and in full
// in a tooltip.
func TestTables(t *testing.T) {
	t.Parallel()
	b := open(t)
	s, url := serve(t)
	long := "tenant:" + strings.Repeat("0123456789", 12) + ":profile"
	s.Do("SET", long, strings.Repeat("x", 100<<10))
	for i := range 9 {
		s.Do("SET", "big:"+strconv.Itoa(i), strings.Repeat("x", 70<<10+i<<10))
	}
	b.size(400, 800, "light")
	b.enter(url)
	b.await("document.querySelectorAll('[aria-label^=\"Big keys\"] tbody tr').length === 8")
	b.pause()
	column := func(n int) string {
		return eval[string](b, fmt.Sprintf(`[...document.querySelectorAll('[aria-label^="Big keys"] tbody tr')]
			.map((e) => e.children[%d].textContent).join(' ')`, n))
	}
	name := eval[[]string](b, `[...document.querySelectorAll('[aria-label^="Big keys"] td.name')].filter((e) => e.title)
		.flatMap((e) => [e.textContent, e.title])`)
	if len(name) != 2 || name[1] != long || !strings.HasPrefix(name[0], "tenant:") || !strings.HasSuffix(name[0],
		"profile") || !strings.Contains(name[0], "…") {
		t.Errorf("the long name is shown as %q", name)
	}
	if got := column(0); !strings.HasPrefix(got, name[0]+" big:8 big:7") {
		t.Errorf("the largest come first, but: %s", got)
	}
	press :=
		"[...document.querySelectorAll('[aria-label^=\"Big keys\"] th button')].find((e) => e.textContent === 'Key').click()"
	eval[any](b, press)
	if got := column(0); !strings.HasPrefix(got, "big:0 big:1 big:2") {
		t.Errorf("sorted by name: %s", got)
	}
	eval[any](b, press)
	if got := column(0); !strings.HasPrefix(got, name[0]+" big:8") {
		t.Errorf("sorted by name, the last first: %s", got)
	}
	eval[any](b, "document.querySelector('[aria-label^=\"Filter: Big keys\"]').focus()")
	b.typeText("g:1")
	if got := column(0); got != "big:1" {
		t.Errorf("filtered: %s", got)
	}
	b.look()
	if got := column(0); got != "big:1" {
		t.Errorf("filtered, after another look: %s", got)
	}
}

// TestNothingIsAskedWithoutAToken: without a token, the page sends one request and shows a form, without an alarm. It
// sends requests again when it has a token.
func TestNothingIsAskedWithoutAToken(t *testing.T) {
	t.Parallel()
	b := open(t)
	_, url := serve(t)
	b.show(url)
	b.await("!document.getElementById('login').hidden")
	asked := "performance.getEntriesByType('resource').filter((e) => e.name.includes('/live/state')).length"
	once := eval[int](b, asked)
	testkit.Lapse(5 * time.Second)
	if again := eval[int](b, asked); again != once {
		t.Errorf("asked %d times, and %d times later", once, again)
	}
	if eval[bool](b, "!document.getElementById('state').hidden || !document.getElementById('main').hidden") {
		t.Error("more than the form is shown")
	}
	b.typeText("wrong")
	b.press("Enter")
	b.says("refused", "not the token")
}

// states waits until the line of state contains part, with a link to the panel.
func (b *browser) states(part, panel string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`[...document.querySelectorAll('#troubles li')].some((e) =>
		e.querySelector('.text').textContent.includes(%s) && e.querySelector('a').hash === '#%s')`, strconv.Quote(part), panel))
}

// TestHeldTurn: while a command holds the turn, the page shows it, and names the client. When the command ends, the
// page continues, and then lists the trouble as past.
func TestHeldTurn(t *testing.T) {
	t.Parallel()
	b := open(t)
	s, url := serve(t)
	b.enter(url)
	b.await("document.getElementById('state').className === 'state good'")
	c := s.Dial()
	id := c.Must("CLIENT", "ID").Int
	c.Send("DEBUG", "SLEEP", 15)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	b.states(fmt.Sprintf("by DEBUG of client %d (127.0.0.1:", id), "turns")
	if _, err := c.Receive(); err != nil {
		t.Fatal(err)
	}
	b.await("[...document.querySelectorAll('#past li')].some((e) => e.textContent.includes('The turn is held'))")
	s.Do("CONFIG", "SET", "busy-reply-threshold", 50)
	c.Send("EVAL", "while true do end", 0)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	b.states("A slow script: EVAL ", "turns")
	s.Do("SCRIPT", "KILL")
	b.await("!document.getElementById('troubles').textContent.includes('A slow script')")
}

// TestSlotsAndReplicas: the panels are right for a cluster node, for a primary with a replica, and for the replica.
func TestSlotsAndReplicas(t *testing.T) {
	t.Parallel()
	b := open(t)
	s, url := serve(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)))
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 8191, 9000, 9000)
	b.enter(url)
	b.await("document.querySelector('#cluster rect.mine')?.getAttribute('width') === '8192'")
	b.await("document.getElementById('cluster').textContent.includes('0–8191 9000')")
	b.await("document.getElementById('cluster').textContent.includes('8,193')")
	b.states("8,191 of 16,384 slots are uncovered", "cluster")

	primary, primaryURL := serve(t)
	replica, replicaURL := serve(t, "--replicaof", "127.0.0.1", strconv.Itoa(primary.Port))
	replica.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	eval[any](b, "sessionStorage.clear()")
	b.enter(primaryURL)
	b.await(fmt.Sprintf("document.getElementById('replication').textContent.includes('127.0.0.1:%d')", replica.Port))
	b.enter(replicaURL)
	b.await(fmt.Sprintf("document.querySelector('[data-field=master_host]')?.textContent === '127.0.0.1:%d'",
		primary.Port))
	b.await("document.querySelector('[data-field=master_link_status]').textContent === 'up'")
}
