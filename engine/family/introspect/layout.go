package introspect

// A sectionLayout is one section of INFO, with its fields in the order that tools expect. If no package contributes a
// field "name=value", INFO shows value, which is right while the feature does not exist. If no package contributes a
// field without a value, INFO leaves it out. "=bytes" stands for 0 and the field's _human line.
type sectionLayout struct {
	name   string
	always bool // shown by INFO without arguments
	fields string
}

var layout = []sectionLayout{
	{"Server", true, `
		redis_version server_name spindle_version server_mode=standalone redis_git_sha1 redis_git_dirty redis_build_id redis_mode=standalone
		os arch_bits=64 monotonic_clock=POSIX multiplexing_api=epoll atomicvar_api=go gcc_version=0.0.0 process_id
		process_supervised=no run_id tcp_port server_time_usec uptime_in_seconds uptime_in_days hz=10 configured_hz=10
		lru_clock executable config_file io_threads_active=0 listener0 shutdown_in_milliseconds
	`},
	{"TLS", false, `
		tls_server_cert_serial=none tls_server_cert_expires_in_seconds=0 tls_client_cert_serial=none
		tls_client_cert_expires_in_seconds=0 tls_ca_cert_serial=none tls_ca_cert_expires_in_seconds=0
	`},
	{"Clients", true, `
		connected_clients=0 cluster_connections=0 maxclients=0 client_recent_max_input_buffer=0
		client_recent_max_output_buffer=0 blocked_clients=0 tracking_clients=0 pubsub_clients=0 watching_clients=0
		clients_in_timeout_table=0 total_watched_keys=0 total_blocking_keys=0 total_blocking_keys_on_nokey=0
		paused_reason
	`},
	{"Memory", true, `
		used_memory used_memory_rss used_memory_peak used_memory_peak_time used_memory_peak_perc used_memory_overhead used_memory_startup
		used_memory_dataset used_memory_dataset_perc allocator_allocated=0 allocator_active=0 allocator_resident=0
		allocator_muzzy=0 total_system_memory used_memory_lua=0 used_memory_vm_eval=0 used_memory_lua_human=0B
		used_memory_scripts_eval=0 number_of_cached_scripts=0 number_of_functions=0 number_of_libraries=0 used_memory_vm_functions=0
		used_memory_vm_total=bytes used_memory_functions=0 used_memory_scripts=bytes maxmemory maxmemory_policy
		allocator_frag_ratio=1.00 allocator_frag_bytes=0 allocator_rss_ratio=1.00 allocator_rss_bytes=0
		rss_overhead_ratio=1.00 rss_overhead_bytes=0 mem_fragmentation_ratio=1.00 mem_fragmentation_bytes=0
		mem_not_counted_for_evict=0 mem_replication_backlog=0 mem_total_replication_buffers=0 mem_clients_slaves=0
		mem_clients_normal=0 mem_cluster_links=0 mem_aof_buffer=0 mem_allocator=spindle
		mem_overhead_db_hashtable_rehashing=0 active_defrag_running=0 lazyfree_pending_objects=0 lazyfreed_objects=0
	`},
	{"Persistence", true, `
		loading=0 async_loading=0 current_cow_peak=0 current_cow_size=0 current_cow_size_age=0 current_fork_perc=0.00
		current_save_keys_processed=0 current_save_keys_total=0 rdb_changes_since_last_save=0 rdb_bgsave_in_progress=0
		rdb_last_save_time=0 rdb_last_bgsave_status=ok rdb_last_bgsave_time_sec=-1 rdb_current_bgsave_time_sec=-1
		rdb_saves=0 rdb_last_cow_size=0 rdb_last_load_keys_expired=0 rdb_last_load_keys_loaded=0 aof_enabled=0
		aof_rewrite_in_progress=0 aof_rewrite_scheduled=0 aof_last_rewrite_time_sec=-1 aof_current_rewrite_time_sec=-1
		aof_last_bgrewrite_status=ok aof_rewrites=0 aof_rewrites_consecutive_failures=0 aof_last_write_status=ok
		aof_last_cow_size=0 module_fork_in_progress=0 module_fork_last_cow_size=0 aof_current_size aof_base_size
		aof_pending_rewrite aof_buffer_length aof_pending_bio_fsync aof_delayed_fsync loading_start_time
	`},
	{"Stats", true, `
		total_connections_received=0 total_commands_processed=0 instantaneous_ops_per_sec=0 total_net_input_bytes=0
		total_net_output_bytes=0 total_net_repl_input_bytes=0 total_net_repl_output_bytes=0
		instantaneous_input_kbps=0.00 instantaneous_output_kbps=0.00 instantaneous_input_repl_kbps=0.00
		instantaneous_output_repl_kbps=0.00 rejected_connections=0 sync_full=0 sync_partial_ok=0 sync_partial_err=0
		expired_subkeys=0 expired_subkeys_active=0 expired_keys=0 expired_keys_active=0 expired_fields=0 expired_stale_perc=0.00 expired_time_cap_reached_count=0
		expire_cycle_cpu_milliseconds=0 evicted_keys=0 evicted_clients=0 evicted_scripts=0
		total_eviction_exceeded_time=0 current_eviction_exceeded_time=0 keyspace_hits=0 keyspace_misses=0
		pubsub_channels=0 pubsub_patterns=0 pubsubshard_channels=0 latest_fork_usec=0 total_forks=0
		migrate_cached_sockets=0 slave_expires_tracked_keys=0 active_defrag_hits=0 active_defrag_misses=0
		active_defrag_key_hits=0 active_defrag_key_misses=0 total_active_defrag_time=0 current_active_defrag_time=0
		tracking_total_keys=0 tracking_total_items=0 tracking_total_prefixes=0 unexpected_error_replies=0
		total_error_replies=0 dump_payload_sanitizations=0 total_reads_processed=0 total_writes_processed=0
		io_threaded_reads_processed=0 io_threaded_writes_processed=0 client_query_buffer_limit_disconnections=0
		client_output_buffer_limit_disconnections=0 reply_buffer_shrinks=0 reply_buffer_expands=0 eventloop_cycles=0
		eventloop_duration_sum=0 eventloop_duration_cmd_sum=0 instantaneous_eventloop_cycles_per_sec=0
		instantaneous_eventloop_duration_usec=0 acl_access_denied_auth=0 acl_access_denied_cmd=0
		acl_access_denied_key=0 acl_access_denied_channel=0 acl_access_denied_tls_cert=0 acl_access_denied_db=0
	`},
	{"Replication", true, `
		role=master master_host connected_slaves=0 min_slaves_good_slaves slave0 master_failover_state=no-failover
		master_replid=0000000000000000000000000000000000000000 master_replid2=0000000000000000000000000000000000000000
		master_repl_offset=0 second_repl_offset=-1 repl_backlog_active=0 repl_backlog_size=0
		repl_backlog_first_byte_offset=0 repl_backlog_histlen=0
	`},
	{"CPU", true, `
		used_cpu_sys=0.000000 used_cpu_user=0.000000 used_cpu_sys_children=0.000000 used_cpu_user_children=0.000000
		used_cpu_sys_main_thread=0.000000 used_cpu_user_main_thread=0.000000 used_active_time_main_thread=0.000000
	`},
	{"Modules", true, `
		module
	`},
	{"Commandstats", false, `
	`},
	{"Errorstats", true, `
	`},
	{"Latencystats", false, `
	`},
	{"Cluster", true, `
		cluster_enabled=0
	`},
	{"Keyspace", true, `
	`},
	{"Keysizes", true, `
	`},
	{"Debug", false, `
		eventloop_duration_aof_sum=0 eventloop_duration_cron_sum=0 eventloop_duration_max=0 eventloop_cmd_per_cycle_max=0
		allocator_allocated_lua=0 allocator_active_lua=0 allocator_resident_lua=0 allocator_frag_bytes_lua=0
	`},
}
