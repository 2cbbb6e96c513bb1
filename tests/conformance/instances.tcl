
# The end of this file is not the suite's: it writes down what became of each test, as resume.tcl does.
proc conformance_record {status name detail} {
    set out [open $::env(CONFORMANCE_RESULTS) a]
    fconfigure $out -encoding utf-8
    set fields {}
    foreach field [list $status $name 0 $detail] {
        lappend fields [string map [list \\ \\\\ \t \\t \n \\n \r \\r] $field]
    }
    puts $out [join $fields \t]
    close $out
}

# A test's name begins with its unit's, because all units begin with the same tests. A failure ends its unit.
# The unit is a variable of run_tests, which main calls: level 2. A test may stand in a proc of its file.
rename test conformance_test
proc test {descr code} {
    upvar #2 test unit
    set name "[file rootname [file tail $unit]]: $descr"
    if {$name in [split $::env(CONFORMANCE_SKIP) \n]} {
        conformance_record skip $name {}
        return
    }
    conformance_record start $name {}
    set failed $::failed
    set status [catch {uplevel 1 [list conformance_test $descr $code]} result options]
    if {$status == 1} {
        conformance_record err $name $result
    } elseif {$::failed > $failed} {
        conformance_record err $name "the output says why"
    } else {
        conformance_record ok $name {}
    }
    dict incr options -level
    return -options $options $result
}
