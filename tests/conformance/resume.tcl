# resume.tcl keeps the suite going after a failure, and writes down what became of each test.
#
# The suite stops at the first error that is raised outside of a test: the rest of the block, often of the file, is never run.
# Here a block runs statement by statement, and an error outside of a test is written down like a failed test and ends that
# statement alone. Nothing inside a test is changed: its first error ends it, as it always did.
#
# What the runner changes in the copied tree for it is a line that sources this file before the suite's client starts. The only
# thing it needs of the suite are four names: send_data_packet, start_server, tags, reconnect.
#
# Record: status, test, milliseconds, detail, as one Tcl-free line: fields parted by tabs, \t \n \\ escaped.

proc conformance_record {status name elapsed detail} {
    set out [open $::env(CONFORMANCE_RESULTS) a]
    fconfigure $out -encoding utf-8
    set fields {}
    foreach field [list $status $name $elapsed $detail] {
        lappend fields [string map [list \\ \\\\ \t \\t \n \\n \r \\r] $field]
    }
    puts $out [join $fields \t]
    close $out
}

# conformance_name is the test that runs now, or nothing outside of one.
proc conformance_name {} {
    set tail " in $::curfile"
    if {[string match *$tail $::cur_test]} {
        return [string range $::cur_test 0 end-[string length $tail]]
    }
    return $::cur_test
}

# conformance_clean takes away what a failed test left behind, so that it does not fail the next one: the connection of the
# innermost server is made anew (MULTI, a subscription), and raw sockets opened since the test began are closed (a replica's).
proc conformance_clean {} {
    set clients {}
    foreach id [array names ::redis::fd] { lappend clients $::redis::fd($id) }
    foreach channel [chan names sock*] {
        if {$channel ni $::conformance_open && $channel ni $clients} { catch {close $channel} }
    }
    if {[llength $::servers] > 0} { catch {reconnect} }
}

# Each packet to the suite's own server is a fact worth keeping.
set ::conformance_done 0
set ::conformance_open [chan names sock*]
rename send_data_packet conformance_send
proc send_data_packet {fd status data {elapsed 0}} {
    switch -- $status {
        testing {
            set ::conformance_open [chan names sock*]
            conformance_record start $data 0 {}
        }
        ok      { conformance_record ok $data $elapsed {} }
        skip    { conformance_record skip $data 0 {} }
        ignore  { conformance_record ignore $data 0 {} }
        err     {
            set name [conformance_name]
            if {$name eq {}} { set name "(outside) [string range [lindex [split $data \n] 0] 0 79]" }
            conformance_record err $name 0 $data
            conformance_clean
        }
        done    { set ::conformance_done 1 }
        exception {
            # When all is done the suite's server hangs up on its client, which calls that an exception too.
            if {!$::conformance_done} { conformance_record err "(outside) exception" 0 $data }
        }
    }
    conformance_send $fd $status $data $elapsed
}

# resume runs body in the caller's frame a statement at a time. Inside a test it is plain uplevel.
proc resume {body} {
    if {$::cur_test ne {}} {
        return [uplevel 1 $body]
    }
    set statement {}
    set last {}
    foreach line [split $body \n] {
        append statement $line \n
        # A comment is dropped before it can look like an open brace; a backslash at the end of a line continues it.
        if {[regexp {^\s*(#[^\n]*)?\n$} $statement] && ![string match "*\\\\\n" $statement]} {
            set statement {}
            continue
        }
        if {[string match "*\\\\\n" $statement] || ![info complete $statement]} { continue }
        set code [catch {uplevel 1 [conformance_unfold $statement]} last options]
        if {$code == 1} {
            set first [string trim [lindex [split [string trim $statement] \n] 0]]
            conformance_record err "(outside) [string range $first 0 79]" 0 "$last\n[dict get $options -errorinfo]"
            if {[llength $::servers] > 0} { catch {reconnect} }
        } elseif {$code != 0} {
            return -code $code $last
        }
        set statement {}
    }
    if {[string trim $statement] ne {}} {
        conformance_record err "(outside) unparsed" 0 $statement
    }
    return $last
}

# conformance_unfold lets the body of a loop or of a plain if be resumed in its turn: only its last word changes.
proc conformance_unfold {statement} {
    set statement [string trim $statement]
    if {[regexp {^(foreach|for|while|if|run_solo)\s} $statement] && [string index $statement end] eq "\}"
            && [string is list $statement] && ![regexp {\}\s*else(if)?\s*[\{\[$]} $statement]} {
        set body [lindex $statement end]
        set head [string range $statement 0 end-[expr {[string length $body] + 2}]]
        if {"$head\{$body\}" eq $statement} {
            return "$head\{[list resume $body]\}"
        }
    }
    return $statement
}

# Inside a test the suite, told to be durable, would swallow what is raised in a nested server's block, take that server off
# its stack twice, and go on without the outer one. So it is held until that server is gone, and then raised: the test fails.
rename start_server conformance_start_server
proc start_server {options {code undefined}} {
    if {$code eq "undefined"} {
        return [uplevel 1 [list conformance_start_server $options]]
    }
    if {$::cur_test eq {}} {
        return [uplevel 1 [list conformance_start_server $options [list resume $code]]]
    }
    set depth [llength $::servers]
    set ::conformance_held($depth) {}
    set result [uplevel 1 [list conformance_start_server $options [list conformance_hold $depth $code]]]
    if {$::conformance_held($depth) ne {}} {
        lassign $::conformance_held($depth) error info
        error $error $info
    }
    return $result
}

proc conformance_hold {depth body} {
    set code [catch {uplevel 1 $body} result]
    if {$code == 1} {
        set ::conformance_held($depth) [list $result $::errorInfo]
        return
    }
    return -code $code $result
}

rename tags conformance_tags
proc tags {names code} {
    if {$::cur_test eq {}} { set code [list resume $code] }
    uplevel 1 [list conformance_tags $names $code]
}

rename source conformance_source
proc source {args} {
    if {[lindex $args end] eq $::curfile && $::cur_test eq {}} {
        set in [open $::curfile]
        set body [read $in]
        close $in
        return [uplevel 1 [list resume $body]]
    }
    uplevel 1 [list conformance_source {*}$args]
}

if {[info exists ::env(CONFORMANCE_SHARDS)]} { conformance_source tests/shards.tcl }
