package page

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A dashboard is a dashboard process with a folder as its store.
type dashboard struct {
	t     *testing.T
	store string
	url   string
}

func startDashboard(t *testing.T, more ...string) *dashboard {
	t.Helper()
	port := testkit.FreePort(t)
	d := &dashboard{t: t, store: "folder:" + testkit.MemoryDir(t), url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	args := []string{"--dashboard", "--dashboard-address", fmt.Sprintf("127.0.0.1:%d", port), "--store", d.store,
		"--dashboard-write-token", token}
	testkit.Launch(t, testkit.Spec{Bare: true, NoWait: true, Port: port, Args: append(args, more...)})
	testkit.Until(t, testkit.Slowly(30*time.Second), "the dashboard", func() error {
		_, err := d.try("GET", "/v1/products", "")
		return err
	})
	return d
}

// startProxy starts a proxy of the product "shop" that serves its metrics.
func (d *dashboard) startProxy(id string) *testkit.Server {
	d.t.Helper()
	port := testkit.FreePort(d.t)
	return testkit.Launch(d.t, testkit.Spec{Bare: true, Port: port, Args: []string{"--proxy", "--port", strconv.Itoa(port),
		"--bind", "127.0.0.1", "--store", d.store, "--proxy-product", "shop", "--proxy-id", id,
		"--admin-address", fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(d.t))}})
}

// try sends a request with the token for writing, and returns the reply.
func (d *dashboard) try(method, path, body string) (text string, err error) {
	request, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer got.Body.Close()
	var answer json.RawMessage
	err = json.NewDecoder(got.Body).Decode(&answer)
	if got.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s %s: %s: %s", method, path, got.Status, answer)
	}
	return string(answer), err
}

// do is try, but an error fails the test.
func (d *dashboard) do(method, path, body string) string {
	d.t.Helper()
	text, err := d.try(method, path, body)
	if err != nil {
		d.t.Fatal(err)
	}
	return text
}

// click clicks an element as soon as it exists, is visible and is enabled.
func (b *browser) click(selector string) {
	b.t.Helper()
	quoted := strconv.Quote(selector)
	b.await(fmt.Sprintf(`(() => {
		const e = document.querySelector(%s);
		return e && e.offsetParent !== null && !e.disabled && (e.click(), true);
	})()`, quoted))
}

// fill sets a field of the dialogue. The value "on" ticks a check box.
func (b *browser) fill(field, value string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`(() => {
		const e = document.querySelector('dialog[open] [name=%s]');
		if (!e) return false;
		if (e.type === 'checkbox') e.checked = %t; else e.value = %s;
		return true;
	})()`, field, value == "on", strconv.Quote(value)))
}

// confirm confirms the dialogue, and waits until it is closed.
func (b *browser) confirm() {
	b.t.Helper()
	b.click("dialog[open] [data-do=confirm]")
	b.await("!document.querySelector('dialog[open] [data-do=confirm]')")
}

// says waits until an element contains a text.
func (b *browser) says(id, text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("document.getElementById(%q)?.textContent.includes(%s)", id, strconv.Quote(text)))
}

// giveToken types the token into the page.
func (b *browser) giveToken() {
	b.t.Helper()
	b.await("document.activeElement.id === 'field-secret'")
	b.typeText(token)
	b.press("Enter")
	b.await("!document.querySelector('dialog[open] [name=secret]')")
	b.says("token", "dashboard-write-token")
}

// awaitMove waits until the page shows a move in the given state.
func (b *browser) awaitMove(state string) {
	b.t.Helper()
	testkit.Until(b.t, testkit.Slowly(120*time.Second), "a move that is "+state, func() error {
		if got := eval[string](b, "document.getElementById('move').dataset.state"); got != state {
			return fmt.Errorf("it is %q: %s", got, eval[string](b, "document.getElementById('move').innerText"))
		}
		return nil
	})
}

// addGroup adds a group through the page.
func (b *browser) addGroup(id, primary, replicas string) {
	b.t.Helper()
	b.click("#add-group")
	b.fill("id", id)
	b.fill("primary", primary)
	b.fill("replicas", replicas)
	b.confirm()
	b.says("groups", primary)
}

// complainOf fails the test if the page had errors that the test did not cause. A status of 502 is always allowed: on a
// busy host the dashboard may get no reply in time, and the page asks again.
func (b *browser) complainOf(t *testing.T, expected ...string) {
	t.Helper()
	expected = append(expected, "status of 502")
	for _, text := range b.complaints() {
		known := false
		for _, e := range expected {
			known = known || strings.Contains(text, e)
		}
		if !known {
			t.Errorf("the browser complains: %.500s", text)
		}
	}
}

// TestDashboardPage: an operator creates a product over three servers, adds a group, rebalances with a preview, and
// watches the move. Then the operator promotes, drains and removes. The page shows that a server was killed.
func TestDashboardPage(t *testing.T) {
	t.Parallel()
	b := open(t)
	d := startDashboard(t)
	var servers []*testkit.Server
	for range 4 {
		servers = append(servers, testkit.Redis(t))
	}
	b.size(1280, 900, "light")
	b.show(d.url)
	b.await("!document.getElementById('none').hidden")
	b.click("#first")
	b.giveToken()
	b.fill("name", "shop")
	b.fill("label", "orders and carts")
	b.confirm()
	b.await("!document.getElementById('main').hidden")
	b.says("what", "orders and carts")
	b.addGroup("a", servers[0].Addr, "")
	b.addGroup("b", servers[1].Addr, servers[3].Addr)
	b.click("#assign")
	b.confirm()
	b.await("document.getElementById('assign').hidden")
	proxy := d.startProxy("p1")
	b.says("proxies", "p1")
	testkit.Pipe(t, proxy.Dial(), 20000, func(i int) []any {
		return []any{"SET", "key:" + strconv.Itoa(i), strings.Repeat("v", 100)}
	})
	stop := load(t, proxy)
	defer stop()
	b.await("Number(document.querySelector('#figures [data-field=calls]').textContent.replaceAll(',', '')) > 100")
	b.await("document.querySelector('#figures [data-field=p99]').textContent !== '0 µs'")

	b.addGroup("c", servers[2].Addr, "")
	b.click("#rebalance")
	b.fill("by", "slots")
	b.confirm()
	b.says("plan", "5,46") // a third, rounded
	b.await("document.querySelectorAll('dialog canvas').length === 2")
	b.fill("pace", "200") // so that it can be paused before its end
	if n := servers[2].Do("DBSIZE").Int; n != 0 {
		t.Errorf("%d keys have moved before the plan was started", n)
	}
	b.click("dialog[open] [data-do=start]")
	b.awaitMove("running")
	b.await("!document.getElementById('pause').hidden")
	b.click("#pause")
	b.confirm()
	b.awaitMove("paused")
	picture(t, b, "dashboard-moving", 1280, 1500)
	b.click("#pace")
	b.fill("pace", "0")
	b.confirm()
	b.click("#resume")
	b.confirm()
	b.awaitMove("done")
	b.await("document.getElementById('move-bar').value === 1")
	b.await("document.querySelector('[data-field=move-slots]').textContent .startsWith('5,46')")
	b.await("Number(document.querySelector('[data-field=move-keys]').textContent.replaceAll(',', '')) > 1000")
	if n := servers[2].Do("DBSIZE").Int; n == 0 {
		t.Error("no key has moved")
	}
	b.says("legend", "c 5,46")
	b.click("#rebalance")
	b.confirm()
	b.says("plan-none", "No slot would move")
	b.press("Escape")
	b.await("!document.getElementById('dialog').open")
	walks(t, b)
	picture(t, b, "dashboard-1280", 1280, 1570)

	// A replica is promoted.
	b.click("[aria-label='Manage b']")
	b.click(fmt.Sprintf("dialog[open] [data-server='%s'] [data-do=Promote]", servers[3].Addr))
	b.confirm()
	servers[3].AwaitInfo(testkit.Slowly(20*time.Second), "replication", "role", "master")
	b.await("!document.querySelector('#groups tr.bad')")

	// A group is drained and removed.
	b.click("[aria-label='Manage a']")
	b.click("dialog[open] [data-do=Drain]")
	b.confirm()
	b.says("dialog", "a, draining")
	b.click("dialog[open] [data-do=start]")
	b.await("!document.getElementById('pause').hidden || document.getElementById('legend').textContent.includes('a 0')")
	b.awaitMove("done")
	b.says("legend", "a 0")
	b.click("[aria-label='Manage a']")
	b.click("dialog[open] .danger[data-do=Remove]")
	b.confirm()
	b.await("!document.querySelector(\"[aria-label='Manage a']\")")

	// The page shows that a server was killed.
	stop()
	b.await("document.getElementById('troubles').hidden")
	servers[2].Kill()
	killed := time.Now()
	b.says("troubles", servers[2].Addr)
	if took := time.Since(killed); took > testkit.Slowly(20*time.Second) {
		t.Errorf("the killed server was seen after %s", took)
	}
	b.await("document.querySelector('#groups tr.server.bad')?.textContent.includes('down')")
	b.says("audit", "group delete")
	b.size(400, 800, "dark")
	fits(t, b, 400)
	picture(t, b, "dashboard-400", 400, 2000)
	b.complainOf(t)
}

// walks checks that the page can be used with the keyboard alone.
func walks(t *testing.T, b *browser) {
	t.Helper()
	eval[any](b, "document.activeElement.blur()")
	b.press("r")
	b.await("document.activeElement.name === 'by'")
	b.press("Escape")
	b.await("!document.getElementById('dialog').open")
	b.press("g")
	b.await("document.activeElement.name === 'id'")
	b.press("Escape")
	b.await("!document.getElementById('dialog').open")
	eval[any](b, "document.activeElement.blur()")
	reached := map[string]bool{}
	for range 40 {
		b.press("Tab")
		reached[eval[string](b, "document.activeElement.id || document.activeElement.getAttribute('aria-label') || ''")] =
			true
		if !eval[bool](b, `(() => {
			const e = document.activeElement;
			return e === document.body || e.className === 'skip' || getComputedStyle(e).outlineStyle !== 'none';
		})()`) {
			t.Errorf("focus cannot be seen on %s", eval[string](b, "document.activeElement.outerHTML.slice(0, 200)"))
		}
	}
	for _, want := range []string{"product", "create", "token", "theme", "rebalance", "move-slots", "map", "add-group",
		"Manage a"} {
		if !reached[want] {
			t.Errorf("Tab does not reach %q, but %v", want, reached)
		}
	}
	eval[any](b, "document.getElementById('map').focus()")
	b.press("ArrowRight")
	b.says("slot", "Slot 1: ")
}

// picture saves a picture in the folder that SPINDLE_SCREENS names.
func picture(t *testing.T, b *browser, name string, width, height int) {
	t.Helper()
	dir := os.Getenv("SPINDLE_SCREENS")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), b.picture(width, height), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fits checks that nothing extends beyond the window.
func fits(t *testing.T, b *browser, width int) {
	t.Helper()
	wide := eval[[]string](b, `[...document.querySelectorAll('body *')]
		.filter((e) => !e.closest('svg') && e.className !== 'skip' && e.offsetParent !== null)
		.filter((e) => !e.closest('.scroll') || innerWidth < 600)
		.filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
		.map((e) => e.outerHTML.slice(0, 120))`)
	if len(wide) > 0 {
		t.Errorf("at %d pixels these stand out: %v", width, wide)
	}
	if scroll := eval[int](b, "document.documentElement.scrollWidth"); scroll > width {
		t.Errorf("at %d pixels the page is %d wide", width, scroll)
	}
}

// TestDashboardOperators: a wrong token is refused and not stored, and a reader is asked for a token. When two
// operators start the same plan, one move starts, and the other request is refused.
func TestDashboardOperators(t *testing.T) {
	t.Parallel()
	one, two := open(t), open(t)
	d := startDashboard(t, "--dashboard-read-token", "reader")
	d.do("POST", "/v1/products", `{"name":"shop","kind":"groups"}`)
	for i, s := range []*testkit.Server{testkit.Redis(t), testkit.Redis(t)} {
		d.do("POST", "/v1/products/shop/groups", fmt.Sprintf(`{"id":"g%d","primary":%q}`, i, s.Addr))
		if i == 0 {
			d.do("POST", "/v1/products/shop/slots", `{"even":true}`)
		}
	}
	one.show(d.url)
	one.await("document.activeElement.id === 'field-secret'")
	one.typeText("wrong")
	one.press("Enter")
	one.await("document.querySelector('dialog .problem').textContent.includes('no token of this dashboard')")
	one.fill("secret", "reader")
	one.confirm()
	one.says("groups", "g1")
	one.click("#rebalance") // the page asks the reader for another token
	one.await("document.querySelector('dialog').textContent.includes('for writing')")
	one.giveToken()
	one.await("document.querySelector('dialog[open] [name=by]')")
	kept := eval[string](one, "JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, location.href])")
	if strings.Contains(kept, "pa\\\"ss") || strings.Contains(kept, "reader") || strings.Contains(kept, "wrong") {
		t.Errorf("a token is kept: %s", kept)
	}
	two.show(d.url)
	two.giveToken()
	two.says("groups", "g1")
	two.click("#rebalance")
	for _, b := range []*browser{one, two} {
		b.confirm()
		b.says("plan", "8,192 slots move")
	}
	one.fill("pace", "1")
	one.click("dialog[open] [data-do=start]")
	one.await("!document.getElementById('dialog').open")
	two.click("dialog[open] [data-do=start]")
	two.await("!document.querySelector('dialog .problem').hidden")
	two.await("document.getElementById('move').dataset.state !== ''")
	one.awaitMove("done")
	two.awaitMove("done")
	two.click("dialog[open] [data-do=again]")
	two.says("plan-none", "No slot would move")
	one.complainOf(t, "401", "403")
	two.complainOf(t, "401", "403", "409")
}

// TestDashboardProductGone: another operator deletes a product while a dialogue about it is open. The page shows the
// next product, and the dialogue closes: confirmed there, it would delete the next product.
func TestDashboardProductGone(t *testing.T) {
	t.Parallel()
	b := open(t)
	d := startDashboard(t, "--dashboard-read-token", "reader")
	for _, name := range []string{"a", "b"} {
		d.do("POST", "/v1/products", `{"name":"`+name+`","kind":"groups"}`)
	}
	b.show(d.url + "/#a")
	b.giveToken()
	b.await("document.title.startsWith('a ')")
	b.click("#delete-product")
	b.says("dialog-title", "Delete product a?")
	d.do("DELETE", "/v1/products/a", "")
	b.await("document.title.startsWith('b ')")
	if eval[bool](b, "document.getElementById('dialog').open") {
		t.Error("the dialogue is still open")
	}
	b.complainOf(t, "401", "404")
}

// TestDashboardOfMany: with 100 shards of two servers each and 50 proxies, the page draws quickly. Markup in any name
// is shown as text.
func TestDashboardOfMany(t *testing.T) {
	t.Parallel()
	b := open(t)
	d := startDashboard(t)
	d.do("POST", "/v1/products", `{"name":"shop","kind":"groups"}`)
	answers, err := json.Marshal(many(rand.New(rand.NewPCG(1, 2))))
	if err != nil {
		t.Fatal(err)
	}
	b.call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `
		const answers = ` + string(answers) + `;
		const real = window.fetch;
		let looks = 0;
		window.fetch = async (path, options) => {
			if (!String(path).endsWith('/overview')) return real(path, options);
			const answer = structuredClone(answers[looks++ % answers.length]);
			answer.at = Date.now();
			return new Response(JSON.stringify(answer), { headers: { 'Content-Type': 'application/json' } });
		};`}, nil)
	b.size(1280, 900, "light")
	b.show(d.url)
	b.await("document.querySelectorAll('#groups tr.server').length === 200")
	b.await("document.querySelectorAll('#proxies tbody tr').length === 50")
	b.says("groups", "onerror=")
	b.says("proxies", "<script>")
	// The machine has other work, so one quick drawing is enough.
	b.await("performance.getEntriesByName('draw').some((e) => e.duration < 200)")
	if n := eval[int](b, "document.querySelectorAll('img, iframe, main script').length"); n != 0 {
		t.Errorf("%d elements were made of names", n)
	}
	if title := eval[string](b, "document.title"); strings.Contains(title, "owned") {
		t.Errorf("markup ran: the title is %q", title)
	}
	picture(t, b, "dashboard-many", 1280, 1600)
	// The focus stays on a button when the page is drawn again.
	eval[any](b, "document.querySelector(\"[aria-label='Manage s50']\").focus()")
	eval[any](b, "window.seen = performance.getEntriesByName('draw').at(-1).startTime")
	b.await("performance.getEntriesByName('draw').at(-1).startTime > window.seen")
	if label := eval[string](b, "document.activeElement.getAttribute('aria-label')"); label != "Manage s50" {
		t.Errorf("the focus went to %q", label)
	}
	b.press("Enter")
	b.await("document.querySelector('dialog[open]')?.textContent.includes('s50')")
	b.press("Escape")
	b.size(400, 800, "light")
	fits(t, b, 400)
	b.complainOf(t)
}

// many returns two overviews of a large product with different figures.
func many(rng *rand.Rand) (answers []map[string]any) {
	traffic := func() map[string]any {
		return map[string]any{"calls": rng.Float64() * 1e5, "errors": rng.Float64(), "queue": rng.IntN(50),
			"mean_us": rng.Float64() * 500, "p50_us": rng.Float64() * 500, "p99_us": rng.Float64() * 5000}
	}
	for range 2 {
		var groups, proxies, servers, ranges []map[string]any
		for i := range 100 {
			id := "s" + strconv.Itoa(i)
			primary := fmt.Sprintf("10.0.%d.1:6379", i)
			var members []map[string]any
			for j, role := range []string{"primary", "replica"} {
				address := fmt.Sprintf("10.0.%d.%d:6379", i, j+1)
				members = append(members, map[string]any{"address": address, "role": role, "link": "up", "primary": primary,
					"server": markup, "zone": markup, "keys": rng.IntN(1e6), "memory": rng.IntN(1e9), "clients": 50,
					"ops": rng.IntN(1e5)})
				t := traffic()
				t["address"] = address
				servers = append(servers, t)
			}
			groups = append(groups, map[string]any{"id": id, "label": markup, "primary": primary, "slots": 163,
				"servers": members})
			ranges = append(ranges, map[string]any{"from": i * 163, "to": i*163 + 162, "group": id})
		}
		for i := range 50 {
			proxies = append(proxies, map[string]any{"id": fmt.Sprintf("p%d %s", i, markup), "present": true, "current": true,
				"version": markup, "clients": rng.IntN(1e4), "owed": 3, "failures": 0, "retries": 0, "traffic": traffic()})
		}
		answers = append(answers, map[string]any{"product": map[string]any{"name": "shop", "kind": "groups", "label": markup},
			"slots": map[string]any{"slots": 16384, "ranges": ranges}, "groups": groups, "proxies": proxies, "servers": servers,
			"refused": []string{markup}})
	}
	return answers
}
