package page

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A browser is one tab of a headless Chromium, driven by the DevTools protocol over a pipe: JSON between zero bytes.
type browser struct {
	t       *testing.T
	send    *os.File
	session string
	next    int
	mu      sync.Mutex
	waiting map[int]chan reply
	errors  []string // errors of the page's console and of its content security policy
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// open starts Chromium with an empty tab. Without Chromium the test is skipped.
func open(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: make page installs it and tests the page in it")
	}
	toBrowser, send, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	receive, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--no-proxy-server", "--user-data-dir="+t.TempDir(),
		"about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser}   // 3 and 4, as --remote-debugging-pipe wants
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its many processes are killed together
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "LANG=C", "TZ=UTC")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	b := &browser{t: t, send: send, waiting: map[int]chan reply{}}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		send.Close()
		receive.Close()
	})
	go b.receive(receive)
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// receive passes replies to the goroutines that wait for them, and collects the page's errors.
func (b *browser) receive(from *os.File) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if wait := b.waiting[m.ID]; wait != nil {
			wait <- m.reply
			delete(b.waiting, m.ID)
		}
		if said := string(m.Params); isComplaint(m.Method, said) {
			b.errors = append(b.errors, said)
		}
		b.mu.Unlock()
	}
}

// isComplaint reports whether an event shows an error of the page. The refusal of the first request is no error,
// because that request has no token.
func isComplaint(method, params string) bool {
	isError := method == "Log.entryAdded" && strings.Contains(params, `"level":"error"`)
	return method == "Runtime.exceptionThrown" || isError && !strings.Contains(params, "status of 401")
}

// call sends one command of the DevTools protocol.
func (b *browser) call(method string, params map[string]any, into any) {
	b.t.Helper()
	wait := make(chan reply, 1)
	b.mu.Lock()
	b.next++
	m := map[string]any{"id": b.next, "method": method, "params": params}
	if params == nil {
		m["params"] = map[string]any{}
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	b.waiting[b.next] = wait
	b.mu.Unlock()
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.send.Write(append(text, 0)); err != nil {
		b.t.Fatalf("chromium is gone: %v", err)
	}
	select {
	case r := <-wait:
		if r.Error != nil {
			b.t.Fatalf("%s: %s", method, r.Error.Message)
		}
		if into != nil {
			if err := json.Unmarshal(r.Result, into); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(testkit.Slowly(2 * time.Minute)):
		b.t.Fatalf("%s: no answer", method)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](b *browser, expression string) (v T) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	if len(r.Result.Value) > 0 {
		if err := json.Unmarshal(r.Result.Value, &v); err != nil {
			b.t.Fatalf("%s: %v", expression, err)
		}
	}
	return v
}

// await waits until an expression is true.
func (b *browser) await(expression string) {
	b.t.Helper()
	testkit.Until(b.t, testkit.Slowly(20*time.Second), expression, func() error {
		if !eval[bool](b, "Boolean("+expression+")") {
			return fmt.Errorf("not yet; the page says %q", eval[string](b, "document.body.innerText.slice(0, 400)"))
		}
		return nil
	})
}

// size sets the window's size in CSS pixels, and the theme that the system prefers.
func (b *browser) size(width, height int, theme string) {
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
	}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{
		"features": []any{map[string]any{"name": "prefers-color-scheme", "value": theme}},
	}, nil)
}

// show opens an address and waits for its page.
func (b *browser) show(url string) {
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.await("document.readyState === 'complete' && document.getElementById('main')")
}

// press presses a key: a character, or a name such as Tab.
func (b *browser) press(key string) {
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39}
	down := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		down["text"] = "\r"
	}
	if codes[key] == 0 {
		down["text"] = key
	}
	b.call("Input.dispatchKeyEvent", down, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

func (b *browser) typeText(text string) {
	for _, c := range text {
		b.press(string(c))
	}
}

// picture returns a PNG of the page, starting at its top.
func (b *browser) picture(width, height int) []byte {
	var r struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}, &r)
	png, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	return png
}

// complaints returns the page's errors so far.
func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errors
}
