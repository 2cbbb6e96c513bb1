# shards.tcl lets the suite, run in external mode at a proxy, set up the shards as their operator would.
#
# The proxy refuses what concerns a single server: settings of the data, DEBUG, ACL SETUSER. The suite needs some of that to
# prepare its tests. What the proxy refuses so is sent to each shard instead. Only these three commands, and only of clients
# that wait for each reply: what a test is about still goes through the proxy.

set ::conformance_shards {}
foreach conformance_port $::env(CONFORMANCE_SHARDS) {
    lappend ::conformance_shards [redis 127.0.0.1 $conformance_port 0 0]
}

# conformance_shard_reply asks each shard. Of several answers it returns the one that knows the key, or the first. The digest
# of all data is that of its parts: their exclusive or.
proc conformance_shard_reply {argv} {
    set replies {}
    set refusal {}
    foreach shard $::conformance_shards {
        if {[catch {$shard {*}$argv} reply]} { set refusal $reply } else { lappend replies $reply }
    }
    if {$replies eq {}} { error $refusal }
    if {[string match -nocase "config set appendonly*" $argv]} {
        foreach shard $::conformance_shards { waitForBgrewriteaof $shard }
    }
    set what [string tolower [lindex $argv 0]-[lindex $argv 1]]
    if {$what eq "debug-digest"} {
        set digest {}
        for {set i 0} {$i < 40} {incr i 8} {
            set part 0
            foreach reply $replies { set part [expr {$part ^ "0x[string range $reply $i $i+7]"}] }
            append digest [format %08x $part]
        }
        return $digest
    }
    foreach reply $replies {
        if {$what ne "debug-digest-value" || [string trim $reply 0] ne {}} { return $reply }
    }
    return [lindex $replies 0]
}

rename ::redis::__dispatch__raw__ ::redis::conformance_dispatch
proc ::redis::__dispatch__raw__ {id method argv} {
    set port [lindex $::redis::addr($id) 1]
    if {[string tolower $method] ni {config debug acl} || $port != $::port || $::redis::deferred($id)
            || !$::redis::blocking($id)} {
        return [::redis::conformance_dispatch $id $method $argv]
    }
    set code [catch {::redis::conformance_dispatch $id $method $argv} reply]
    set get [string equal -nocase [lindex $argv 0] get]
    if {$code == 0 && [string equal -nocase [lindex $argv 0] set]} {
        catch {conformance_shard_reply [list $method {*}$argv]} ;# the limits of a proxy and of its shards are the same
    }
    if {$code == 1 && ([string match "*is not served by the proxy*" $reply] || [string match "*Unknown option*" $reply])
            || $code == 0 && $get && $reply eq {}} {
        return [conformance_shard_reply [list $method {*}$argv]]
    }
    return -code $code $reply
}
