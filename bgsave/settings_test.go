package bgsave

import (
	"strings"
	"testing"

	"spindle/internal/setting"
)

func TestSaveRules(t *testing.T) {
	cases := []struct {
		args string
		how  setting.How
		want string // "!" an error
	}{
		{"900 1", setting.FromCommand, "900 1"},
		{"900 1 60 0", setting.FromFile, "900 1 60 0"},
		{"300 10", setting.FromFileMore, "3600 1 300 100 60 10000 300 10"},
		{"", setting.FromFile, ""},
		{"900 ", setting.FromCommand, "900 0"},
		{" 900", setting.FromCommand, "!"},
		{"900 1 ", setting.FromCommand, "!"},
		{"900", setting.FromCommand, "!"},
		{"0 1", setting.FromCommand, "!"},
		{"900 -1", setting.FromCommand, "!"},
		{"900 x", setting.FromCommand, "!"},
	}
	for _, c := range cases {
		var s Settings
		row := &s.Rows()[0]
		err := row.Set(strings.Split(c.args, " "), c.how)
		if (err != nil) != (c.want == "!") || err == nil && row.Get() != c.want {
			t.Errorf("save %q: %q, %v; want %q", c.args, row.Get(), err, c.want)
		}
	}
}

func TestFileName(t *testing.T) {
	var s Settings
	rows := s.Rows()
	for name, ok := range map[string]bool{"x.rdb": true, "": true, "a/b": false, "/abs": false, `a\b`: false} {
		if err := rows[1].Set([]string{name}, setting.FromCommand); (err == nil) != ok {
			t.Errorf("dbfilename %q: %v", name, err)
		}
	}
}

// TestRowsKeepTheirText: CONFIG SET accepts the value that CONFIG GET returns.
func TestRowsKeepTheirText(t *testing.T) {
	var s Settings
	for _, row := range s.Rows() {
		args := []string{row.Get()}
		if row.Flags&setting.MultiArg != 0 {
			args = strings.Split(row.Get(), " ")
		}
		if err := row.Set(args, setting.FromCommand); err != nil || !row.IsDefault() {
			t.Errorf("%s %q: %v", row.Name, args, err)
		}
	}
}
