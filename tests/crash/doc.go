// Package crash kills servers, damages their files and fills their disks. Then it checks that no data is lost that
// durability promises to keep.
//
// Owner: each test owns the servers that it starts. They are real processes; nothing here looks inside them.
// Start at kill_test.go; damage_test.go has refused files, disk_test.go has full disks.
package crash
