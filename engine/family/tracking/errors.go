package tracking

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errRedirectTwice = &protocol.Error{Code: "ERR", Text: "A client can only redirect to a single other client"}
	errNoRedirect    = &protocol.Error{Code: "ERR", Text: "The client ID you want redirect to does not exist"}
	errPrefix        = &protocol.Error{Code: "ERR", Text: "PREFIX option requires BCAST mode to be enabled"}
	errSwitchBcast   = &protocol.Error{Code: "ERR",
		Text: "You can't switch BCAST mode on/off before disabling tracking for this client, " +
			"and then re-enabling it with a different mode."}
	errBcastOpt  = &protocol.Error{Code: "ERR", Text: "OPTIN and OPTOUT are not compatible with BCAST"}
	errBothOpts  = &protocol.Error{Code: "ERR", Text: "You can't specify both OPTIN mode and OPTOUT mode"}
	errSwitchOpt = &protocol.Error{Code: "ERR",
		Text: "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, " +
			"and then re-enabling it with a different mode."}
	errNotTracking = &protocol.Error{Code: "ERR",
		Text: "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"}
	errNotOptIn = &protocol.Error{Code: "ERR",
		Text: "CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."}
	errNotOptOut = &protocol.Error{Code: "ERR",
		Text: "CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."}
)

func errOverlapsExisting(prefix []byte, other string) error {
	return protocol.Errorf("ERR",
		"Prefix '%s' overlaps with an existing prefix '%s'. Prefixes for a single client must not overlap.", prefix, other)
}

func errOverlapsProvided(prefix, other []byte) error {
	return protocol.Errorf("ERR",
		"Prefix '%s' overlaps with another provided prefix '%s'. Prefixes for a single client must not overlap.",
		prefix, other)
}
