package aof

import (
	"spindle/engine/client"
	"spindle/engine/command"
)

// Family is BGREWRITEAOF and BACKUP.
func (l *Log) Family() command.Family {
	return command.Family{Name: "server", Rows: []command.Spec{
		{Name: "bgrewriteaof", Arity: 1, Flags: command.Admin | command.NoScript | command.NoAsyncLoading,
			Run: l.bgrewriteaof},
		l.backupSpec(),
	}}
}

// bgrewriteaof is BGREWRITEAOF. Inside MULTI it is scheduled for after the transaction.
//
// Replies: "Background append only file rewriting started" or "Background append only file rewriting scheduled".
// Errors: errInProgress.
func (l *Log) bgrewriteaof(c *command.Context) error {
	scheduled, err := l.rewrite(c.Client.Is(client.Multi))
	switch {
	case err != nil:
		return err
	case scheduled:
		c.Reply.Simple("Background append only file rewriting scheduled")
	default:
		c.Reply.Simple("Background append only file rewriting started")
	}
	return nil
}
