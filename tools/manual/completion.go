package main

import (
	"fmt"
	"slices"
	"strings"

	"spindle/internal/config"
	"spindle/tools/cli"
)

// firstWords returns the words with which a command line may begin.
func firstWords() []string {
	words := []string{"--help", "--version", "--check-system", "--check-config", "doctor"}
	for _, t := range cli.Tools {
		words = append(words, t.Name)
	}
	return words
}

// isPath reports whether the value of a directive is the name of a file or folder.
func isPath(name string) bool {
	switch name {
	case "dir", "logfile", "pidfile", "aclfile", "unixsocket", "tls-cert-file", "tls-key-file", "tls-ca-cert-file",
		"tls-ca-cert-dir",
		"tls-client-cert-file", "tls-client-key-file":
		return true
	}
	return false
}

// bashCompletion returns the completion file for bash.
func bashCompletion(chapters []config.Chapter) string {
	var names, values strings.Builder
	for _, c := range chapters {
		for _, d := range c.Directives {
			fmt.Fprintf(&names, " --%s", d.Name)
			if words := d.Words; words != nil {
				fmt.Fprintf(&values, "\t--%s) COMPREPLY=($(compgen -W '%s' -- \"$word\")); return ;;\n", d.Name,
					strings.Join(words, " "))
			} else if !isPath(d.Name) {
				fmt.Fprintf(&values, "\t--%s) COMPREPLY=(); return ;;\n", d.Name)
			}
		}
	}
	return fmt.Sprintf(`# bash completion of spindle; written by tools/manual.
_spindle() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
	COMPREPLY=()
	case $before in
%s	esac
	case ${COMP_WORDS[1]} in
	check-aof) COMPREPLY=($(compgen -W '--fix --truncate-to-timestamp' -- "$word")) ;;
	cluster)
		if ((COMP_CWORD == 2)); then
			COMPREPLY=($(compgen -W 'demo' -- "$word"))
			return
		fi
		COMPREPLY=($(compgen -W '--port --replicas --dir' -- "$word"))
		;;
	proxy)
		if ((COMP_CWORD == 2)); then
			COMPREPLY=($(compgen -W 'demo' -- "$word"))
			return
		fi
		COMPREPLY=($(compgen -W '--port --dir --pidfile --store' -- "$word"))
		;;
	check-rdb) COMPREPLY=($(compgen -W '--keys' -- "$word")) ;;
	backup)
		case ${COMP_WORDS[2]} in
%s		esac
		if ((COMP_CWORD == 2)); then
			COMPREPLY=($(compgen -W '%s' -- "$word"))
			return
		fi
		;;
	--help | -h) COMPREPLY=($(compgen -W '%s' -- "$word")); return ;;
	*)
		if ((COMP_CWORD == 1)); then
			COMPREPLY=($(compgen -W '%s' -- "$word"))
		fi
		COMPREPLY+=($(compgen -W '%s' -- "$word"))
		;;
	esac
	[[ $word == -* ]] || COMPREPLY+=($(compgen -f -- "$word"))
}
complete -o filenames -F _spindle spindle
`, values.String(), backupCompletion(), strings.Join(cli.BackupWords, " "), strings.ReplaceAll(names.String(), "--", "")[1:], strings.Join(firstWords(), " "), names.String()[1:])
}

// backupCompletion returns the cases of the subcommands of backup, with the options of each.
func backupCompletion() string {
	var cases strings.Builder
	for _, word := range cli.BackupWords {
		fmt.Fprintf(&cases, "\t\t%s) COMPREPLY=($(compgen -W '--%s' -- \"$word\")) ;;\n", word,
			strings.Join(slices.Concat(cli.BackupStore, cli.BackupOptions[word]), " --"))
	}
	return cases.String()
}

// zshCompletion returns the file for zsh's fpath.
func zshCompletion(chapters []config.Chapter) string {
	var b strings.Builder
	b.WriteString("#compdef spindle\n# zsh completion of spindle; written by tools/manual.\n_arguments -s \\\n")
	for _, c := range chapters {
		for _, d := range c.Directives {
			action := " "
			if d.Words != nil {
				action = "(" + strings.Join(d.Words, " ") + ")"
			} else if isPath(d.Name) {
				action = "_files"
			}
			said, _, _ := strings.Cut(d.Text, ". ")
			fmt.Fprintf(&b, "  '*--%s[%s]:value:%s' \\\n", d.Name, zshText(said), action)
		}
	}
	fmt.Fprintf(&b, "  '1:file or tool:{_alternative \"tools:tool:(%s)\" \"files:file:_files\"}' \\\n  '*:file:_files'\n",
		strings.Join(firstWords(), " "))
	return b.String()
}

// zshText returns text for the brackets of an option of _arguments.
func zshText(text string) string {
	return strings.NewReplacer("'", "", "[", "(", "]", ")", ":", ";", `\`, "", "`", "").Replace(text)
}
