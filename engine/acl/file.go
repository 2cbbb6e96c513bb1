package acl

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"spindle/internal/disk"
)

// Load replaces all users by those of the ACL file at path. If the file lacks the default user, Load resets that user.
//
// Shape: one Change for each user that existed before, deleted or not.
// Errors: one text with all errors of the file, in the order of lines. After an error nothing has changed.
func (u *Users) Load(path string) ([]Change, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("Error loading ACLs, opening file '%s': %s", path, systemText(err))
	}
	loaded, err := u.parseFile(path, text)
	if err != nil {
		return nil, err
	}
	return u.replace(loaded), nil
}

// replace replaces the users by loaded, which holds sealed rights by name. A user that is also in loaded keeps its
// pointer.
func (u *Users) replace(loaded map[string]*Rights) []Change {
	if loaded[DefaultName] == nil {
		loaded[DefaultName] = u.newDefault()
	}
	var changes []Change
	for _, name := range u.Names() {
		user := u.byName[name]
		change := Change{User: user, Old: user.Rights()}
		if next := loaded[name]; next != nil {
			u.swap(user, next)
		} else {
			change.Deleted = true
			delete(u.byName, name)
			u.strip(user)
		}
		changes = append(changes, change)
	}
	for name, rights := range loaded {
		if u.byName[name] == nil {
			u.enter(rights)
		}
	}
	return changes
}

// parseFile parses an ACL file: lines of "user NAME RULE...", and blank lines. Its errors name path.
//
// A word ends at a blank, even inside quotes, because no name or pattern contains a blank.
func (u *Users) parseFile(path string, text []byte) (map[string]*Rights, error) {
	users := map[string]*Rights{}
	var wrong strings.Builder
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.Trim(line, " \t\r\n")
		if len(line) == 0 {
			continue
		}
		where := fmt.Sprintf("%s:%d", path, i+1)
		words := bytes.Split(line, []byte(" "))
		if len(words) < 2 || string(words[0]) != "user" {
			wrong.WriteString(where + " should start with user keyword followed by the username. ")
			continue
		}
		name := words[1]
		if hasSpaces(name) {
			fmt.Fprintf(&wrong, "'%s: username '%s' contains invalid characters. ", where, cText(name))
			continue
		}
		if users[string(name)] != nil {
			fmt.Fprintf(&wrong, "WARNING: Duplicate user '%s' found on line %d. ", name, i+1)
			continue
		}
		users[string(name)] = u.parseUser(where, string(name), words[2:], &wrong)
	}
	if wrong.Len() != 0 {
		wrong.WriteString("WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
		return nil, errors.New(wrong.String())
	}
	return users, nil
}

// parseUser makes one user of a file. It reports all unknown commands and categories, and the first other error.
func (u *Users) parseUser(where, name string, rules [][]byte, wrong *strings.Builder) *Rights {
	d := newRights(name, u.catalogue, u.allChannels)
	merged, unclosed := mergeSelectors(rules)
	if unclosed >= 0 {
		wrong.WriteString(where + ": Unmatched parenthesis in selector definition. ")
		return d
	}
	told := false
	for _, rule := range merged {
		rule = bytes.Trim(rule, "\t\r\n")
		err := d.apply(rule, u.allChannels)
		switch {
		case err == errUnknown: // the text contains no password
			fmt.Fprintf(wrong, "%s: Error in applying operation '%s': %s. ", where, cText(rule), err)
		case err != nil && !told:
			fmt.Fprintf(wrong, "%s: %s. ", where, err)
			told = true
		}
	}
	return d.seal()
}

// Save writes all users to the ACL file at path and keeps the file's mode and owner. After a crash the file has either
// the old or the new content.
//
// Errors: the system's text. The old file is unchanged, unless only the sync of the folder failed.
func (u *Users) Save(path string) error {
	text := strings.Join(u.Lines(), "\n") + "\n"
	err := disk.WriteLike(path, fmt.Sprintf("%s.tmp-%d", path, os.Getpid()), []byte(text))
	var at *disk.StepError
	if errors.As(err, &at) {
		return fmt.Errorf("%s for ACL SAVE: %s", saveSteps[at.Step], systemText(err))
	}
	return err
}

var saveSteps = map[disk.Step]string{
	disk.StepOpen:    "Opening temp ACL file",
	disk.StepWrite:   "Writing ACL file",
	disk.StepSync:    "Syncing ACL file",
	disk.StepRename:  "Renaming ACL file",
	disk.StepSyncDir: "Syncing ACL directory",
}

// systemText returns the system's text for err, capitalized as by C's strerror.
func systemText(err error) string {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return err.Error()
	}
	text := number.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// CheckLines checks the "user" lines of redis.conf before they are applied. Each line is a name and its rules.
//
// Errors: at is the line's index; the error is redis.conf's text. Configure reports unknown commands.
func (u *Users) CheckLines(lines [][][]byte) (at int, err error) {
	seen := map[string]bool{}
	for at, line := range lines {
		name := string(line[0])
		if seen[name] {
			return at, declarationError(line[0], errDuplicate)
		}
		seen[name] = true
		merged, unclosed := mergeSelectors(line[1:])
		if unclosed >= 0 {
			return at, declarationError(line[1+unclosed], errRuleSyntax)
		}
		d := newRights(name, u.catalogue, u.allChannels)
		for _, rule := range merged {
			if err := d.apply(rule, u.allChannels); err != nil && err != errUnknown {
				return at, declarationError(rule, err)
			}
		}
	}
	return 0, nil
}

func declarationError(word []byte, err error) error {
	return fmt.Errorf("Error in user declaration '%s': %w", cText(word), err)
}

// Configure makes the users of redis.conf's "user" lines, each a name and its rules. A line for the default user resets
// that user first.
//
// Shape: disabled names the users without "on", which may be a mistake.
// Errors: the first wrong rule. The server must then not start.
func (u *Users) Configure(lines [][][]byte) (disabled []string, err error) {
	for _, line := range lines {
		name := line[0]
		if hasSpaces(name) {
			return nil, errors.New("Spaces not allowed in ACL usernames")
		}
		merged, unclosed := mergeSelectors(line[1:])
		if unclosed >= 0 {
			return nil, declarationError(line[1+unclosed], errRuleSyntax)
		}
		d := newRights(string(name), u.catalogue, u.allChannels)
		for _, rule := range merged {
			if err := d.apply(rule, u.allChannels); err != nil {
				return nil, fmt.Errorf("Error loading ACL rule '%s' for the user named '%s': %w",
					cText(rule), name, err)
			}
		}
		if !d.enabled {
			disabled = append(disabled, d.name)
		}
		if user := u.Find(name); user != nil {
			u.swap(user, d.seal())
		} else {
			u.enter(d.seal())
		}
	}
	return disabled, nil
}
