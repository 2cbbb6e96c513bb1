package process

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"spindle/internal/logging"
)

// Title has the values of the variables in proc-title-template.
type Title struct {
	Program    string // {title}: argv[0]
	Bind       string // the first address; empty: all
	Port       int64
	TLSPort    int64
	UnixSocket string
	Mode       string // {server-mode}: "[cluster]", "[sentinel]", "[proxy]", "[dashboard]" or nothing
	ConfigFile string
}

// errTitle refuses a template with an unknown variable, and one that expands to nothing.
var errTitle = errors.New("template format is invalid or contains unknown variables")

func checkTitle(template string) error {
	title, ok := Title{}.expand(template)
	if !ok || title == "" {
		return errTitle
	}
	return nil
}

// expand replaces {variables} by their values. {{ becomes one brace.
func (t Title) expand(template string) (string, bool) {
	var b strings.Builder
	for {
		text, rest, found := strings.Cut(template, "{")
		b.WriteString(text)
		switch {
		case !found:
			return strings.Trim(b.String(), " "), true
		case strings.HasPrefix(rest, "{"):
			b.WriteByte('{')
			template = rest[1:]
			continue
		}
		name, rest, closed := strings.Cut(rest, "}")
		value, known := t.value(name)
		if !closed || !known {
			return "", false
		}
		b.WriteString(value)
		template = rest
	}
}

func (t Title) value(name string) (string, bool) {
	switch name {
	case "title":
		return t.Program, true
	case "listen-addr":
		return t.listenAddr(), true
	case "server-mode":
		return t.Mode, true
	case "config-file":
		if t.ConfigFile == "" {
			return "-", true
		}
		return t.ConfigFile, true
	case "port":
		return strconv.FormatInt(t.Port, 10), true
	case "tls-port":
		return strconv.FormatInt(t.TLSPort, 10), true
	case "unixsocket":
		return t.UnixSocket, true
	}
	return "", false
}

func (t Title) listenAddr() string {
	port := t.Port
	if port == 0 {
		port = t.TLSPort
	}
	if port == 0 {
		return "unixsocket:" + t.UnixSocket
	}
	host := t.Bind
	if host == "" {
		host = "*"
	}
	return host + ":" + strconv.FormatInt(port, 10)
}

// titleArea is the memory that the kernel shows as the process's arguments, and the environment after it. The runtime
// has copied the environment; the first SetTitle copies the arguments.
var titleArea []byte

// ShowTitle shows the title that the settings ask for.
func ShowTitle(s *Settings, log *logging.Logger, t Title) {
	if !s.SetProcTitle.Get() {
		return
	}
	if err := SetTitle(s.TitleTemplate.Get(), t); err != nil {
		log.Verbose("The process's title stays: %s", err)
	}
}

// SetTitle shows the expanded template in ps and top.
func SetTitle(template string, t Title) error {
	text, ok := t.expand(template)
	if !ok {
		return errTitle
	}
	if titleArea == nil {
		titleArea = findTitleArea()
	}
	if len(titleArea) == 0 {
		return nil // the kernel does not show where the arguments are: ps keeps showing them
	}
	n := copy(titleArea[:len(titleArea)-1], text)
	clear(titleArea[n:])
	return nil
}

// findTitleArea finds the arguments and the environment in memory, by the numbers of /proc/self/stat.
func findTitleArea() []byte {
	none := []byte{}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil || len(os.Args) == 0 || os.Args[0] == "" {
		return none
	}
	// The name may contain blanks. The fields after it begin with the third one.
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	const argStart, argEnd, envStart, envEnd = 48 - 3, 49 - 3, 50 - 3, 51 - 3
	if len(fields) <= envEnd {
		return none
	}
	at := func(field int) uintptr {
		n, _ := strconv.ParseUint(fields[field], 10, 64)
		return uintptr(n)
	}
	first := unsafe.StringData(os.Args[0])
	if at(argStart) != uintptr(unsafe.Pointer(first)) || at(argEnd) <= at(argStart) {
		return none
	}
	end := at(argEnd)
	if at(envStart) == end && at(envEnd) > end {
		end = at(envEnd)
	}
	for i, arg := range os.Args {
		os.Args[i] = strings.Clone(arg)
	}
	return unsafe.Slice(first, end-at(argStart))
}
