// Package crash kills servers, damages their files and fills their disks, and asks afterwards for what was promised.
//
// Owner: each test, of the servers it starts. Real processes throughout; nothing here looks inside them.
// Start at kill_test.go; damage_test.go refuses files, disk_test.go runs out of room.
package crash
