package stream

import (
	"spindle/engine/command"
	"spindle/protocol"
)

// Clients match these texts, so they are worded as in Redis.
var (
	errBothBounds = &protocol.Error{Code: "ERR",
		Text: "syntax error, MAXLEN and MINID options at the same time are not compatible"}
	errMaxLen     = &protocol.Error{Code: "ERR", Text: "The MAXLEN argument must be >= 0."}
	errLimit      = &protocol.Error{Code: "ERR", Text: "The LIMIT argument must be >= 0."}
	errLimitAlone = &protocol.Error{Code: "ERR",
		Text: "syntax error, LIMIT cannot be used without specifying a trimming strategy"}
	errNoBound    = &protocol.Error{Code: "ERR", Text: "syntax error, XTRIM must be called with a trimming strategy"}
	errLimitExact = &protocol.Error{Code: "ERR", Text: "syntax error, LIMIT cannot be used without the special ~ option"}
	errZeroID     = &protocol.Error{Code: "ERR", Text: "The ID specified in XADD must be greater than 0-0"}
	errSmallID    = &protocol.Error{Code: "ERR",
		Text: "The ID specified in XADD is equal or smaller than the target stream top item"}
	errExhausted = &protocol.Error{Code: "ERR",
		Text: "The stream has exhausted the last possible ID, unable to add more items"}
	errTwoMessages = &protocol.Error{Code: "ERR", Text: "IDMP/IDMPAUTO specified multiple times"}
	errMessageID   = &protocol.Error{Code: "ERR", Text: "IDMP/IDMPAUTO can be used only with auto-generated IDs"}
	errNoProducer  = &protocol.Error{Code: "ERR", Text: "IDMP requires a non-empty producer ID"}
	errNoMessage   = &protocol.Error{Code: "ERR", Text: "IDMP requires a non-empty idempotent ID"}
	errNoAuto      = &protocol.Error{Code: "ERR", Text: "IDMPAUTO requires a non-empty producer ID"}
	errNoEntry     = &protocol.Error{Code: "ERR", Text: "The stream has no entry with this ID"}
	errOtherEntry  = &protocol.Error{Code: "ERR", Text: "The idempotent ID belongs to another entry"}
	errNothingSet  = &protocol.Error{Code: "ERR", Text: "At least one parameter must be specified"}
	errSeconds     = &protocol.Error{Code: "ERR", Text: "IDMP-DURATION must be between 1 and 86400"}
	errMostRecall  = &protocol.Error{Code: "ERR", Text: "IDMP-MAXSIZE must be between 1 and 10000"}
	errTooLarge    = &protocol.Error{Code: "ERR", Text: "Elements are too large to be stored"}
	errAddedSign   = &protocol.Error{Code: "ERR", Text: "entries_added must be positive"}
	errBelowGiven  = &protocol.Error{Code: "ERR",
		Text: "The ID specified in XSETID is smaller than the provided max_deleted_entry_id"}
	errBelowDeleted = &protocol.Error{Code: "ERR",
		Text: "The ID specified in XSETID is smaller than current max_deleted_entry_id"}
	errBelowTop = &protocol.Error{Code: "ERR",
		Text: "The ID specified in XSETID is smaller than the target stream top item"}
	errBelowLength = &protocol.Error{Code: "ERR",
		Text: "The entries_added specified in XSETID is smaller than the target stream length"}
	errClaimIdle       = &protocol.Error{Code: "ERR", Text: "Invalid min-idle-time argument for XCLAIM"}
	errClaimIdleOption = &protocol.Error{Code: "ERR", Text: "Invalid IDLE option argument for XCLAIM"}
	errClaimTime       = &protocol.Error{Code: "ERR", Text: "Invalid TIME option argument for XCLAIM"}
	errClaimRetryCount = &protocol.Error{Code: "ERR", Text: "Invalid RETRYCOUNT option argument for XCLAIM"}
	errAutoClaimIdle   = &protocol.Error{Code: "ERR", Text: "Invalid min-idle-time argument for XAUTOCLAIM"}
	errAutoClaimCount  = &protocol.Error{Code: "ERR", Text: "COUNT must be > 0"}
	errAutoClaimMemory = &protocol.Error{Code: "ERR",
		Text: "Insufficient memory, failed allocating transient memory, COUNT too high."}
	errEntriesRead = &protocol.Error{Code: "ERR", Text: "value for ENTRIESREAD must be positive or -1"}
	errBusyGroup   = &protocol.Error{Code: "BUSYGROUP", Text: "Consumer Group name already exists"}
	errMustExist   = &protocol.Error{Code: "ERR",
		Text: "The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM " +
			"option to create an empty stream automatically."}
	errIDCount       = &protocol.Error{Code: "ERR", Text: "Number of IDs must be a positive integer"}
	errNackCount     = &protocol.Error{Code: "ERR", Text: "Invalid RETRYCOUNT option argument for XNACK"}
	errIDsDiffer     = &protocol.Error{Code: "ERR", Text: "The `numids` parameter must match the number of arguments"}
	errID            = &protocol.Error{Code: "ERR", Text: "Invalid stream ID specified as stream command argument"}
	errIntervalStart = &protocol.Error{Code: "ERR", Text: "invalid start ID for the interval"}
	errIntervalEnd   = &protocol.Error{Code: "ERR", Text: "invalid end ID for the interval"}
	errTimeout       = &protocol.Error{Code: "ERR", Text: "timeout is not an integer or out of range"}
	errTimeoutSign   = &protocol.Error{Code: "ERR", Text: "timeout is negative"}
	errTimeoutRange  = &protocol.Error{Code: "ERR", Text: "timeout is out of range"}
	errGroupOption   = &protocol.Error{Code: "ERR",
		Text: "The GROUP option is only supported by XREADGROUP. You called XREAD instead."}
	errNoAckOption = &protocol.Error{Code: "ERR",
		Text: "The NOACK option is only supported by XREADGROUP. You called XREAD instead."}
	errClaimOnly = &protocol.Error{Code: "ERR",
		Text: "The CLAIM option is only supported by XREADGROUP. You called XREAD instead."}
	errReadIdle      = &protocol.Error{Code: "ERR", Text: "Invalid min-idle-time argument for XREADGROUP"}
	errMaxCount      = &protocol.Error{Code: "ERR", Text: "MAXCOUNT must be > 0"}
	errMaxSize       = &protocol.Error{Code: "ERR", Text: "MAXSIZE must be > 0"}
	errMaxBelowCount = &protocol.Error{Code: "ERR", Text: "MAXCOUNT must be >= COUNT"}
	errNoGroup       = &protocol.Error{Code: "ERR", Text: "Missing GROUP option for XREADGROUP"}
	errDollar        = &protocol.Error{Code: "ERR",
		Text: "The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by " +
			"specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set."}
	errPlus = &protocol.Error{Code: "ERR",
		Text: "The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by " +
			"specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set."}
	errGreater = &protocol.Error{Code: "ERR",
		Text: "The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."}
)

func errClaimOption(option []byte) error {
	return protocol.Errorf("ERR", "Unrecognized XCLAIM option '%s'", option)
}

func errNoSuchGroup(group, key []byte) error {
	return protocol.Errorf("NOGROUP", "No such consumer group '%s' for key name '%s'", group, key)
}

func errNoKeyOrGroup(key, group []byte) error {
	return protocol.Errorf("NOGROUP", "No such key '%s' or consumer group '%s'", key, group)
}

func errUnbalanced(c *command.Context, grouped bool) error {
	symbol := '$'
	if grouped {
		symbol = '>'
	}
	return protocol.Errorf("ERR", "Unbalanced '%s' list of streams: for each stream key an ID or '%c' must be specified.",
		c.Spec.Full, symbol)
}

func errNoReadGroup(key, group []byte) error {
	return protocol.Errorf("NOGROUP", "No such key '%s' or consumer group '%s' in XREADGROUP with GROUP option", key,
		group)
}
