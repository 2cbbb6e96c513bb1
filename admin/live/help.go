package live

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// help runs "help" and "help COMMAND [SUBCOMMAND]" of the console. consult runs a command as the console's user.
func help(words []string, consult func(words ...string) (any, error)) (string, error) {
	if len(words) == 0 {
		var b strings.Builder
		b.WriteString("These commands are taken, as far as the user's rights go:\n")
		line := " "
		for _, name := range slices.Sorted(maps.Keys(takes)) {
			if len(line)+len(name) > 100 {
				b.WriteString(line + "\n")
				line = " "
			}
			line += " " + strings.ToUpper(name)
		}
		b.WriteString(line + "\n")
		b.WriteString("help COMMAND tells what one does. Tab completes. SELECT N takes another database.\n")
		return b.String(), nil
	}
	name := strings.ToLower(strings.Join(words, "|"))
	found, err := consult("COMMAND", "DOCS", name)
	if err != nil {
		return "", err
	}
	docs, _ := found.(map[string]any)
	doc, isThere := docs[name].(map[string]any)
	if !isThere {
		return "", fmt.Errorf("ERR there is no command %q", strings.ToUpper(strings.Join(words, " ")))
	}
	var b strings.Builder
	b.WriteString(strings.ToUpper(strings.ReplaceAll(name, "|", " ")))
	for _, a := range listOf(doc["arguments"]) {
		b.WriteString(" " + syntax(a))
	}
	fmt.Fprintf(&b, "\n%v\n", doc["summary"])
	for _, field := range []string{"complexity", "since", "group"} {
		if text, has := doc[field].(string); has {
			fmt.Fprintf(&b, "  %s: %s\n", field, text)
		}
	}
	subs, _ := doc["subcommands"].(map[string]any)
	for _, sub := range slices.Sorted(maps.Keys(subs)) {
		of, _ := subs[sub].(map[string]any)
		fmt.Fprintf(&b, "  %s: %v\n", strings.ToUpper(strings.ReplaceAll(sub, "|", " ")), of["summary"])
	}
	return b.String(), nil
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

// syntax formats an argument of COMMAND DOCS as manuals do: "[EX seconds | PX milliseconds]", "key [key ...]".
func syntax(argument any) string {
	a, _ := argument.(map[string]any)
	text := func(field string) string { s, _ := a[field].(string); return s }
	has := func(flag string) bool { return slices.Contains(listOf(a["flags"]), any(flag)) }
	value := text("display_text")
	if value == "" {
		value = text("name")
	}
	var parts []string
	for _, inner := range listOf(a["arguments"]) {
		parts = append(parts, syntax(inner))
	}
	switch text("type") {
	case "pure-token":
		value = ""
	case "oneof":
		value = strings.Join(parts, " | ")
		if text("token") != "" || !has("optional") && len(parts) > 1 {
			value = "<" + value + ">"
		}
	case "block":
		value = strings.Join(parts, " ")
	}
	one := strings.TrimSpace(text("token") + " " + value)
	if has("multiple") {
		again := value
		if has("multiple_token") {
			again = one
		}
		one += " [" + again + " ...]"
	}
	if has("optional") {
		one = "[" + one + "]"
	}
	return one
}

// wordsOfConsole returns the possible beginnings of a line of the console, for completion: "get", "client list",
// "help".
func wordsOfConsole() (all []string) {
	for name, subs := range takes {
		all = append(all, name)
		for _, sub := range subs {
			all = append(all, name+" "+sub)
		}
	}
	all = append(all, "help", "select")
	slices.Sort(all)
	return all
}
