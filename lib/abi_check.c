// SPDX-License-Identifier: MIT
/*
 * The layout of the ABI, as it was released: the same for 32 and 64 bits, and
 * only ever added to. Generates no code.
 */
#include <linux/capkm.h>
#include <stddef.h>

#define SIZE(type, n) \
	_Static_assert(sizeof(struct type) == (n), "size of " #type)
#define AT(type, member, n) \
	_Static_assert(offsetof(struct type, member) == (n), #type "." #member)

SIZE(capkm_limit_value, 16);
AT(capkm_limit_value, limit, 0);
AT(capkm_limit_value, __reserved, 4);
AT(capkm_limit_value, value, 8);

SIZE(capkm_claim, 24);
AT(capkm_claim, buffer, 0);
AT(capkm_claim, start, 8);
AT(capkm_claim, end, 16);

SIZE(capkm_place, 32);
AT(capkm_place, stream, 0);
AT(capkm_place, device, 8);
AT(capkm_place, slot, 24);
AT(capkm_place, __reserved, 28);

SIZE(capkm_report, 456);
AT(capkm_report, failure, 0);
AT(capkm_report, kind, 8);
AT(capkm_report, code, 12);
AT(capkm_report, buffer, 16);
AT(capkm_report, start, 24);
AT(capkm_report, end, 32);
AT(capkm_report, scope, 40);
AT(capkm_report, graph, 48);
AT(capkm_report, window, 56);
AT(capkm_report, stream, 64);
AT(capkm_report, session, 72);
AT(capkm_report, sequence, 80);
AT(capkm_report, time_ns, 88);
AT(capkm_report, pid, 96);
AT(capkm_report, tid, 100);
AT(capkm_report, uid, 104);
AT(capkm_report, carriers, 108);
AT(capkm_report, hops, 112);
AT(capkm_report, text_len, 116);
AT(capkm_report, comm, 120);
AT(capkm_report, label, 136);
AT(capkm_report, text, 200);

SIZE(capkm_info, 80);
AT(capkm_info, size, 0);
AT(capkm_info, flags, 4);
AT(capkm_info, out_abi_version, 8);
AT(capkm_info, out_abi_oldest, 12);
AT(capkm_info, out_features, 16);
AT(capkm_info, out_claims_max, 24);
AT(capkm_info, out_streams_max, 28);
AT(capkm_info, out_version, 32);
AT(capkm_info, limits_uptr, 64);
AT(capkm_info, limits_len, 72);
AT(capkm_info, out_limits, 76);

SIZE(capkm_domain_create, 64);
AT(capkm_domain_create, size, 0);
AT(capkm_domain_create, flags, 4);
AT(capkm_domain_create, name_uptr, 8);
AT(capkm_domain_create, name_len, 16);
AT(capkm_domain_create, mode, 20);
AT(capkm_domain_create, max_streams, 24);
AT(capkm_domain_create, backend, 28);
AT(capkm_domain_create, limits_uptr, 32);
AT(capkm_domain_create, limits_len, 40);
AT(capkm_domain_create, out_limit, 44);
AT(capkm_domain_create, out_domain, 48);
AT(capkm_domain_create, out_session, 56);

SIZE(capkm_domain_attach, 64);
AT(capkm_domain_attach, size, 0);
AT(capkm_domain_attach, flags, 4);
AT(capkm_domain_attach, domain, 8);
AT(capkm_domain_attach, name_uptr, 16);
AT(capkm_domain_attach, name_len, 24);
AT(capkm_domain_attach, owner_uid, 28);
AT(capkm_domain_attach, max_streams, 32);
AT(capkm_domain_attach, backend, 36);
AT(capkm_domain_attach, out_domain, 40);
AT(capkm_domain_attach, out_session, 48);
AT(capkm_domain_attach, out_rights, 56);
AT(capkm_domain_attach, out_limit, 60);

SIZE(capkm_domain_query, 304);
AT(capkm_domain_query, size, 0);
AT(capkm_domain_query, flags, 4);
AT(capkm_domain_query, out_domain, 8);
AT(capkm_domain_query, out_session, 16);
AT(capkm_domain_query, out_state, 24);
AT(capkm_domain_query, out_mode, 28);
AT(capkm_domain_query, out_uid, 32);
AT(capkm_domain_query, out_gid, 36);
AT(capkm_domain_query, out_rights, 40);
AT(capkm_domain_query, out_sessions, 44);
AT(capkm_domain_query, out_sequence, 48);
AT(capkm_domain_query, out_buffers, 56);
AT(capkm_domain_query, out_streams, 64);
AT(capkm_domain_query, out_scopes, 72);
AT(capkm_domain_query, out_windows, 80);
AT(capkm_domain_query, out_orphans, 88);
AT(capkm_domain_query, out_graphs, 96);
AT(capkm_domain_query, out_failures, 104);
AT(capkm_domain_query, out_claims, 112);
AT(capkm_domain_query, out_reports, 120);
AT(capkm_domain_query, out_history, 128);
AT(capkm_domain_query, out_created_ns, 136);
AT(capkm_domain_query, out_defunct_ns, 144);
AT(capkm_domain_query, out_name, 152);
AT(capkm_domain_query, out_clients, 216);
AT(capkm_domain_query, out_faulted, 220);
AT(capkm_domain_query, out_unconfirmed, 224);
AT(capkm_domain_query, limits_uptr, 232);
AT(capkm_domain_query, limits_len, 240);
AT(capkm_domain_query, out_limits, 244);
AT(capkm_domain_query, out_sealed, 248);
AT(capkm_domain_query, out_given_up, 256);
AT(capkm_domain_query, out_ledgers, 264);
AT(capkm_domain_query, out_charged, 272);

SIZE(capkm_domain_destroy, 16);
AT(capkm_domain_destroy, size, 0);
AT(capkm_domain_destroy, flags, 4);
AT(capkm_domain_destroy, domain, 8);

SIZE(capkm_stream_create, 32);
AT(capkm_stream_create, size, 0);
AT(capkm_stream_create, flags, 4);
AT(capkm_stream_create, label_uptr, 8);
AT(capkm_stream_create, label_len, 16);
AT(capkm_stream_create, out_limit, 20);
AT(capkm_stream_create, out_stream, 24);

SIZE(capkm_stream_query, 128);
AT(capkm_stream_query, size, 0);
AT(capkm_stream_query, flags, 4);
AT(capkm_stream_query, place, 8);
AT(capkm_stream_query, out_slot, 40);
AT(capkm_stream_query, out_state, 44);
AT(capkm_stream_query, out_window, 48);
AT(capkm_stream_query, out_owner, 56);
AT(capkm_stream_query, out_scopes, 64);
AT(capkm_stream_query, out_sequence, 72);
AT(capkm_stream_query, out_confirmed, 80);
AT(capkm_stream_query, out_unconfirmed, 88);
AT(capkm_stream_query, out_failure, 96);
AT(capkm_stream_query, out_epoch, 104);
AT(capkm_stream_query, out_queued, 112);
AT(capkm_stream_query, __reserved, 116);
AT(capkm_stream_query, out_client, 120);

SIZE(capkm_buffer_create, 72);
AT(capkm_buffer_create, size, 0);
AT(capkm_buffer_create, flags, 4);
AT(capkm_buffer_create, bytes, 8);
AT(capkm_buffer_create, device, 16);
AT(capkm_buffer_create, address, 32);
AT(capkm_buffer_create, label_uptr, 40);
AT(capkm_buffer_create, label_len, 48);
AT(capkm_buffer_create, out_limit, 52);
AT(capkm_buffer_create, out_buffer, 56);
AT(capkm_buffer_create, out_sequence, 64);

SIZE(capkm_buffer_export, 24);
AT(capkm_buffer_export, size, 0);
AT(capkm_buffer_export, flags, 4);
AT(capkm_buffer_export, buffer, 8);
AT(capkm_buffer_export, out_limit, 16);
AT(capkm_buffer_export, __reserved, 20);

SIZE(capkm_buffer_open, 40);
AT(capkm_buffer_open, size, 0);
AT(capkm_buffer_open, flags, 4);
AT(capkm_buffer_open, buffer, 8);
AT(capkm_buffer_open, out_bytes, 16);
AT(capkm_buffer_open, out_sequence, 24);
AT(capkm_buffer_open, out_limit, 32);
AT(capkm_buffer_open, __reserved, 36);

SIZE(capkm_buffer_close, 16);
AT(capkm_buffer_close, size, 0);
AT(capkm_buffer_close, flags, 4);
AT(capkm_buffer_close, buffer, 8);

SIZE(capkm_buffer_reset, 40);
AT(capkm_buffer_reset, size, 0);
AT(capkm_buffer_reset, flags, 4);
AT(capkm_buffer_reset, claim, 8);
AT(capkm_buffer_reset, out_sequence, 32);

SIZE(capkm_range, 32);
AT(capkm_range, start, 0);
AT(capkm_range, end, 8);
AT(capkm_range, id, 16);
AT(capkm_range, state, 24);
AT(capkm_range, kind, 28);

SIZE(capkm_writer, 40);
AT(capkm_writer, start, 0);
AT(capkm_writer, end, 8);
AT(capkm_writer, session, 16);
AT(capkm_writer, stream, 24);
AT(capkm_writer, sequence, 32);

SIZE(capkm_buffer_query, 208);
AT(capkm_buffer_query, size, 0);
AT(capkm_buffer_query, flags, 4);
AT(capkm_buffer_query, buffer, 8);
AT(capkm_buffer_query, from, 16);
AT(capkm_buffer_query, skip, 24);
AT(capkm_buffer_query, ranges_uptr, 32);
AT(capkm_buffer_query, ranges_len, 40);
AT(capkm_buffer_query, out_ranges, 44);
AT(capkm_buffer_query, out_bytes, 48);
AT(capkm_buffer_query, out_device, 56);
AT(capkm_buffer_query, out_address, 72);
AT(capkm_buffer_query, out_sequence, 80);
AT(capkm_buffer_query, out_claims, 88);
AT(capkm_buffer_query, out_failures, 96);
AT(capkm_buffer_query, out_session, 104);
AT(capkm_buffer_query, out_state, 112);
AT(capkm_buffer_query, out_holders, 116);
AT(capkm_buffer_query, out_uses, 120);
AT(capkm_buffer_query, writers_len, 124);
AT(capkm_buffer_query, out_label, 128);
AT(capkm_buffer_query, writers_uptr, 192);
AT(capkm_buffer_query, out_writers, 200);
AT(capkm_buffer_query, __reserved, 204);

SIZE(capkm_window_prepare, 88);
AT(capkm_window_prepare, size, 0);
AT(capkm_window_prepare, flags, 4);
AT(capkm_window_prepare, place, 8);
AT(capkm_window_prepare, cookie, 40);
AT(capkm_window_prepare, mode_uptr, 48);
AT(capkm_window_prepare, mode_len, 56);
AT(capkm_window_prepare, out_state, 60);
AT(capkm_window_prepare, out_window, 64);
AT(capkm_window_prepare, out_slot, 72);
AT(capkm_window_prepare, out_limit, 76);
AT(capkm_window_prepare, parent, 80);

SIZE(capkm_window_begin, 64);
AT(capkm_window_begin, size, 0);
AT(capkm_window_begin, flags, 4);
AT(capkm_window_begin, place, 8);
AT(capkm_window_begin, out_state, 40);
AT(capkm_window_begin, __reserved, 44);
AT(capkm_window_begin, out_window, 48);
AT(capkm_window_begin, out_owner, 56);

SIZE(capkm_window_end, 88);
AT(capkm_window_end, size, 0);
AT(capkm_window_end, flags, 4);
AT(capkm_window_end, place, 8);
AT(capkm_window_end, window, 40);
AT(capkm_window_end, out_state, 48);
AT(capkm_window_end, out_verdict, 52);
AT(capkm_window_end, out_window, 56);
AT(capkm_window_end, out_owner, 64);
AT(capkm_window_end, out_recorded, 72);
AT(capkm_window_end, out_doomed, 80);
AT(capkm_window_end, __reserved, 84);

SIZE(capkm_window_seal, 48);
AT(capkm_window_seal, size, 0);
AT(capkm_window_seal, flags, 4);
AT(capkm_window_seal, window, 8);
AT(capkm_window_seal, reports_uptr, 16);
AT(capkm_window_seal, reports_len, 24);
AT(capkm_window_seal, out_reports, 28);
AT(capkm_window_seal, out_result, 32);
AT(capkm_window_seal, out_limit, 36);
AT(capkm_window_seal, out_graph, 40);

SIZE(capkm_window_refuse, 56);
AT(capkm_window_refuse, size, 0);
AT(capkm_window_refuse, flags, 4);
AT(capkm_window_refuse, window, 8);
AT(capkm_window_refuse, kind, 16);
AT(capkm_window_refuse, code, 20);
AT(capkm_window_refuse, text_uptr, 24);
AT(capkm_window_refuse, text_len, 32);
AT(capkm_window_refuse, reports_len, 36);
AT(capkm_window_refuse, reports_uptr, 40);
AT(capkm_window_refuse, out_reports, 48);
AT(capkm_window_refuse, __reserved, 52);

SIZE(capkm_retained, 40);
AT(capkm_retained, address, 0);
AT(capkm_retained, bytes, 8);
AT(capkm_retained, cookie, 16);
AT(capkm_retained, epoch, 24);
AT(capkm_retained, mode, 32);
AT(capkm_retained, __reserved, 36);

SIZE(capkm_window_take, 64);
AT(capkm_window_take, size, 0);
AT(capkm_window_take, flags, 4);
AT(capkm_window_take, window, 8);
AT(capkm_window_take, claims_uptr, 16);
AT(capkm_window_take, claims_len, 24);
AT(capkm_window_take, out_claims, 28);
AT(capkm_window_take, retained_uptr, 32);
AT(capkm_window_take, retained_len, 40);
AT(capkm_window_take, out_retained, 44);
AT(capkm_window_take, reports_uptr, 48);
AT(capkm_window_take, reports_len, 56);
AT(capkm_window_take, out_reports, 60);

SIZE(capkm_window_record, 48);
AT(capkm_window_record, size, 0);
AT(capkm_window_record, flags, 4);
AT(capkm_window_record, window, 8);
AT(capkm_window_record, reads_uptr, 16);
AT(capkm_window_record, writes_uptr, 24);
AT(capkm_window_record, reads_len, 32);
AT(capkm_window_record, writes_len, 36);
AT(capkm_window_record, out_error_index, 40);
AT(capkm_window_record, out_limit, 44);

SIZE(capkm_window_abort, 56);
AT(capkm_window_abort, size, 0);
AT(capkm_window_abort, flags, 4);
AT(capkm_window_abort, place, 8);
AT(capkm_window_abort, window, 40);
AT(capkm_window_abort, out_window, 48);

SIZE(capkm_window_fail, 64);
AT(capkm_window_fail, size, 0);
AT(capkm_window_fail, flags, 4);
AT(capkm_window_fail, window, 8);
AT(capkm_window_fail, stream, 16);
AT(capkm_window_fail, kind, 24);
AT(capkm_window_fail, code, 28);
AT(capkm_window_fail, label_uptr, 32);
AT(capkm_window_fail, text_uptr, 40);
AT(capkm_window_fail, label_len, 48);
AT(capkm_window_fail, text_len, 52);
AT(capkm_window_fail, out_state, 56);
AT(capkm_window_fail, out_failures, 60);

SIZE(capkm_window_retain, 64);
AT(capkm_window_retain, size, 0);
AT(capkm_window_retain, flags, 4);
AT(capkm_window_retain, window, 8);
AT(capkm_window_retain, retained, 16);
AT(capkm_window_retain, out_limit, 56);
AT(capkm_window_retain, __reserved, 60);

SIZE(capkm_member, 40);
AT(capkm_member, device, 0);
AT(capkm_member, slot, 16);
AT(capkm_member, scopes, 20);
AT(capkm_member, stream, 24);
AT(capkm_member, launches, 32);

SIZE(capkm_window_query, 336);
AT(capkm_window_query, size, 0);
AT(capkm_window_query, flags, 4);
AT(capkm_window_query, window, 8);
AT(capkm_window_query, place, 16);
AT(capkm_window_query, reports_uptr, 48);
AT(capkm_window_query, reports_len, 56);
AT(capkm_window_query, out_reports, 60);
AT(capkm_window_query, out_window, 64);
AT(capkm_window_query, out_owner, 72);
AT(capkm_window_query, out_session, 80);
AT(capkm_window_query, out_cookie, 88);
AT(capkm_window_query, out_graph, 96);
AT(capkm_window_query, out_device, 104);
AT(capkm_window_query, out_slot, 120);
AT(capkm_window_query, out_state, 124);
AT(capkm_window_query, out_verdict, 128);
AT(capkm_window_query, out_capture_cache, 132);
AT(capkm_window_query, out_doomed, 136);
AT(capkm_window_query, out_strict, 140);
AT(capkm_window_query, out_pid, 144);
AT(capkm_window_query, out_uid, 148);
AT(capkm_window_query, out_recorded, 152);
AT(capkm_window_query, out_bytes, 160);
AT(capkm_window_query, out_inputs, 168);
AT(capkm_window_query, out_retained, 176);
AT(capkm_window_query, out_retained_bytes, 184);
AT(capkm_window_query, out_launches, 192);
AT(capkm_window_query, out_foreign_launches, 200);
AT(capkm_window_query, out_failures, 208);
AT(capkm_window_query, out_failed_after, 216);
AT(capkm_window_query, out_prepared_ns, 224);
AT(capkm_window_query, out_begun_ns, 232);
AT(capkm_window_query, out_closed_ns, 240);
AT(capkm_window_query, out_comm, 248);
AT(capkm_window_query, out_mode, 264);
AT(capkm_window_query, out_parent, 296);
AT(capkm_window_query, out_escaped, 304);
AT(capkm_window_query, out_children, 312);
AT(capkm_window_query, out_members, 316);
AT(capkm_window_query, members_uptr, 320);
AT(capkm_window_query, members_len, 328);
AT(capkm_window_query, __reserved, 332);

SIZE(capkm_open_window, 96);
AT(capkm_open_window, window, 0);
AT(capkm_open_window, owner, 8);
AT(capkm_open_window, session, 16);
AT(capkm_open_window, cookie, 24);
AT(capkm_open_window, begun_ns, 32);
AT(capkm_open_window, device, 40);
AT(capkm_open_window, slot, 56);
AT(capkm_open_window, state, 60);
AT(capkm_open_window, doomed, 64);
AT(capkm_open_window, members, 68);
AT(capkm_open_window, pid, 72);
AT(capkm_open_window, tid, 76);
AT(capkm_open_window, comm, 80);

SIZE(capkm_window_list, 88);
AT(capkm_window_list, size, 0);
AT(capkm_window_list, flags, 4);
AT(capkm_window_list, stream, 8);
AT(capkm_window_list, session, 16);
AT(capkm_window_list, pid, 24);
AT(capkm_window_list, tid, 28);
AT(capkm_window_list, device, 32);
AT(capkm_window_list, after, 48);
AT(capkm_window_list, windows_uptr, 56);
AT(capkm_window_list, windows_len, 64);
AT(capkm_window_list, out_windows, 68);
AT(capkm_window_list, out_open, 72);
AT(capkm_window_list, out_active, 76);
AT(capkm_window_list, out_recording, 80);
AT(capkm_window_list, __reserved, 84);

SIZE(capkm_window_abandon, 16);
AT(capkm_window_abandon, size, 0);
AT(capkm_window_abandon, flags, 4);
AT(capkm_window_abandon, window, 8);

SIZE(capkm_scope_enter, 136);
AT(capkm_scope_enter, size, 0);
AT(capkm_scope_enter, flags, 4);
AT(capkm_scope_enter, place, 8);
AT(capkm_scope_enter, reads_uptr, 40);
AT(capkm_scope_enter, writes_uptr, 48);
AT(capkm_scope_enter, label_uptr, 56);
AT(capkm_scope_enter, reads_len, 64);
AT(capkm_scope_enter, writes_len, 68);
AT(capkm_scope_enter, label_len, 72);
AT(capkm_scope_enter, reports_len, 76);
AT(capkm_scope_enter, reports_uptr, 80);
AT(capkm_scope_enter, out_reports, 88);
AT(capkm_scope_enter, out_error_index, 92);
AT(capkm_scope_enter, out_result, 96);
AT(capkm_scope_enter, out_limit, 100);
AT(capkm_scope_enter, out_scope, 104);
AT(capkm_scope_enter, out_sequence, 112);
AT(capkm_scope_enter, out_window, 120);
AT(capkm_scope_enter, out_failure, 128);

SIZE(capkm_scope_exit, 64);
AT(capkm_scope_exit, size, 0);
AT(capkm_scope_exit, flags, 4);
AT(capkm_scope_exit, scope, 8);
AT(capkm_scope_exit, kind, 16);
AT(capkm_scope_exit, code, 20);
AT(capkm_scope_exit, text_uptr, 24);
AT(capkm_scope_exit, stack_uptr, 32);
AT(capkm_scope_exit, text_len, 40);
AT(capkm_scope_exit, stack_len, 44);
AT(capkm_scope_exit, out_failure, 48);
AT(capkm_scope_exit, out_sequence, 56);

SIZE(capkm_check, 64);
AT(capkm_check, size, 0);
AT(capkm_check, flags, 4);
AT(capkm_check, claims_uptr, 8);
AT(capkm_check, claims_len, 16);
AT(capkm_check, reports_len, 20);
AT(capkm_check, reports_uptr, 24);
AT(capkm_check, since, 32);
AT(capkm_check, out_reports, 40);
AT(capkm_check, out_error_index, 44);
AT(capkm_check, out_result, 48);
AT(capkm_check, out_unconfirmed, 52);
AT(capkm_check, out_sequence, 56);

SIZE(capkm_taint, 80);
AT(capkm_taint, size, 0);
AT(capkm_taint, flags, 4);
AT(capkm_taint, claims_uptr, 8);
AT(capkm_taint, claims_len, 16);
AT(capkm_taint, kind, 20);
AT(capkm_taint, code, 24);
AT(capkm_taint, text_len, 28);
AT(capkm_taint, text_uptr, 32);
AT(capkm_taint, stream, 40);
AT(capkm_taint, failure, 48);
AT(capkm_taint, out_error_index, 56);
AT(capkm_taint, out_limit, 60);
AT(capkm_taint, out_failure, 64);
AT(capkm_taint, out_sequence, 72);

SIZE(capkm_written, 32);
AT(capkm_written, size, 0);
AT(capkm_written, flags, 4);
AT(capkm_written, claims_uptr, 8);
AT(capkm_written, claims_len, 16);
AT(capkm_written, out_error_index, 20);
AT(capkm_written, out_sequence, 24);

SIZE(capkm_graph_replay_begin, 80);
AT(capkm_graph_replay_begin, size, 0);
AT(capkm_graph_replay_begin, flags, 4);
AT(capkm_graph_replay_begin, graph, 8);
AT(capkm_graph_replay_begin, place, 16);
AT(capkm_graph_replay_begin, reports_uptr, 48);
AT(capkm_graph_replay_begin, reports_len, 56);
AT(capkm_graph_replay_begin, out_reports, 60);
AT(capkm_graph_replay_begin, out_result, 64);
AT(capkm_graph_replay_begin, out_limit, 68);
AT(capkm_graph_replay_begin, out_sequence, 72);

SIZE(capkm_graph_replay_end, 56);
AT(capkm_graph_replay_end, size, 0);
AT(capkm_graph_replay_end, flags, 4);
AT(capkm_graph_replay_end, graph, 8);
AT(capkm_graph_replay_end, kind, 16);
AT(capkm_graph_replay_end, code, 20);
AT(capkm_graph_replay_end, text_uptr, 24);
AT(capkm_graph_replay_end, text_len, 32);
AT(capkm_graph_replay_end, __reserved, 36);
AT(capkm_graph_replay_end, out_failure, 40);
AT(capkm_graph_replay_end, out_sequence, 48);

SIZE(capkm_graph_destroy, 16);
AT(capkm_graph_destroy, size, 0);
AT(capkm_graph_destroy, flags, 4);
AT(capkm_graph_destroy, graph, 8);

SIZE(capkm_graph_query, 168);
AT(capkm_graph_query, size, 0);
AT(capkm_graph_query, flags, 4);
AT(capkm_graph_query, graph, 8);
AT(capkm_graph_query, from, 16);
AT(capkm_graph_query, claims_uptr, 40);
AT(capkm_graph_query, claims_len, 48);
AT(capkm_graph_query, out_claims, 52);
AT(capkm_graph_query, out_window, 56);
AT(capkm_graph_query, out_session, 64);
AT(capkm_graph_query, out_owner, 72);
AT(capkm_graph_query, out_cookie, 80);
AT(capkm_graph_query, out_writes, 88);
AT(capkm_graph_query, out_inputs, 96);
AT(capkm_graph_query, out_seen, 104);
AT(capkm_graph_query, out_retained, 112);
AT(capkm_graph_query, out_retained_bytes, 120);
AT(capkm_graph_query, out_replays, 128);
AT(capkm_graph_query, out_failed_replays, 136);
AT(capkm_graph_query, out_pid, 144);
AT(capkm_graph_query, out_replaying, 148);
AT(capkm_graph_query, out_updates, 152);
AT(capkm_graph_query, out_failed_updates, 160);

SIZE(capkm_hop, 80);
AT(capkm_hop, needed, 0);
AT(capkm_hop, time_ns, 8);
AT(capkm_hop, label, 16);

SIZE(capkm_failure_query, 104);
AT(capkm_failure_query, size, 0);
AT(capkm_failure_query, flags, 4);
AT(capkm_failure_query, failure, 8);
AT(capkm_failure_query, buffer, 16);
AT(capkm_failure_query, reports_uptr, 24);
AT(capkm_failure_query, reports_len, 32);
AT(capkm_failure_query, out_reports, 36);
AT(capkm_failure_query, hops_uptr, 40);
AT(capkm_failure_query, hops_len, 48);
AT(capkm_failure_query, out_hops, 52);
AT(capkm_failure_query, carriers_uptr, 56);
AT(capkm_failure_query, carriers_len, 64);
AT(capkm_failure_query, out_carriers, 68);
AT(capkm_failure_query, out_skips, 72);
AT(capkm_failure_query, out_dropped, 80);
AT(capkm_failure_query, stack_uptr, 88);
AT(capkm_failure_query, stack_len, 96);
AT(capkm_failure_query, out_stack, 100);

SIZE(capkm_session_join, 40);
AT(capkm_session_join, size, 0);
AT(capkm_session_join, flags, 4);
AT(capkm_session_join, out_domain, 8);
AT(capkm_session_join, out_session, 16);
AT(capkm_session_join, out_rights, 24);
AT(capkm_session_join, out_backend, 28);
AT(capkm_session_join, out_max_streams, 32);
AT(capkm_session_join, out_limit, 36);

SIZE(capkm_stream_destroy, 24);
AT(capkm_stream_destroy, size, 0);
AT(capkm_stream_destroy, flags, 4);
AT(capkm_stream_destroy, stream, 8);
AT(capkm_stream_destroy, out_windows, 16);
AT(capkm_stream_destroy, __reserved, 20);

SIZE(capkm_stream_confirm, 64);
AT(capkm_stream_confirm, size, 0);
AT(capkm_stream_confirm, flags, 4);
AT(capkm_stream_confirm, place, 8);
AT(capkm_stream_confirm, sequence, 40);
AT(capkm_stream_confirm, client, 48);
AT(capkm_stream_confirm, out_unconfirmed, 56);

SIZE(capkm_stream_fault, 72);
AT(capkm_stream_fault, size, 0);
AT(capkm_stream_fault, flags, 4);
AT(capkm_stream_fault, place, 8);
AT(capkm_stream_fault, text_uptr, 40);
AT(capkm_stream_fault, text_len, 48);
AT(capkm_stream_fault, code, 52);
AT(capkm_stream_fault, out_failure, 56);
AT(capkm_stream_fault, out_epoch, 64);

SIZE(capkm_stream_flush, 72);
AT(capkm_stream_flush, size, 0);
AT(capkm_stream_flush, flags, 4);
AT(capkm_stream_flush, place, 8);
AT(capkm_stream_flush, reports_uptr, 40);
AT(capkm_stream_flush, reports_len, 48);
AT(capkm_stream_flush, out_reports, 52);
AT(capkm_stream_flush, out_left, 56);
AT(capkm_stream_flush, out_dropped, 64);

SIZE(capkm_context_renew, 32);
AT(capkm_context_renew, size, 0);
AT(capkm_context_renew, flags, 4);
AT(capkm_context_renew, device, 8);
AT(capkm_context_renew, out_epoch, 24);

SIZE(capkm_window_join, 64);
AT(capkm_window_join, size, 0);
AT(capkm_window_join, flags, 4);
AT(capkm_window_join, window, 8);
AT(capkm_window_join, place, 16);
AT(capkm_window_join, out_state, 48);
AT(capkm_window_join, out_result, 52);
AT(capkm_window_join, out_limit, 56);
AT(capkm_window_join, __reserved, 60);

SIZE(capkm_window_wait, 72);
AT(capkm_window_wait, size, 0);
AT(capkm_window_wait, flags, 4);
AT(capkm_window_wait, window, 8);
AT(capkm_window_wait, place, 16);
AT(capkm_window_wait, timeout_ns, 48);
AT(capkm_window_wait, out_window, 56);
AT(capkm_window_wait, out_state, 64);
AT(capkm_window_wait, out_kind, 68);

SIZE(capkm_graph_update, 48);
AT(capkm_graph_update, size, 0);
AT(capkm_graph_update, flags, 4);
AT(capkm_graph_update, graph, 8);
AT(capkm_graph_update, window, 16);
AT(capkm_graph_update, reports_uptr, 24);
AT(capkm_graph_update, reports_len, 32);
AT(capkm_graph_update, out_reports, 36);
AT(capkm_graph_update, out_result, 40);
AT(capkm_graph_update, __reserved, 44);

SIZE(capkm_device_fault, 48);
AT(capkm_device_fault, size, 0);
AT(capkm_device_fault, flags, 4);
AT(capkm_device_fault, device, 8);
AT(capkm_device_fault, text_uptr, 24);
AT(capkm_device_fault, text_len, 32);
AT(capkm_device_fault, code, 36);
AT(capkm_device_fault, out_clients, 40);
AT(capkm_device_fault, __reserved, 44);

SIZE(capkm_refuse, 104);
AT(capkm_refuse, size, 0);
AT(capkm_refuse, flags, 4);
AT(capkm_refuse, place, 8);
AT(capkm_refuse, claims_uptr, 40);
AT(capkm_refuse, claims_len, 48);
AT(capkm_refuse, what, 52);
AT(capkm_refuse, reports_uptr, 56);
AT(capkm_refuse, reports_len, 64);
AT(capkm_refuse, out_reports, 68);
AT(capkm_refuse, out_result, 72);
AT(capkm_refuse, out_error_index, 76);
AT(capkm_refuse, out_limit, 80);
AT(capkm_refuse, out_state, 84);
AT(capkm_refuse, out_window, 88);
AT(capkm_refuse, out_failure, 96);

SIZE(capkm_usage, 32);
AT(capkm_usage, captures, 0);
AT(capkm_usage, retained_bytes, 8);
AT(capkm_usage, host_bytes, 16);
AT(capkm_usage, encoded_bytes, 24);

SIZE(capkm_ledger_create, 136);
AT(capkm_ledger_create, size, 0);
AT(capkm_ledger_create, flags, 4);
AT(capkm_ledger_create, per_step, 8);
AT(capkm_ledger_create, cumulative, 40);
AT(capkm_ledger_create, inherited, 72);
AT(capkm_ledger_create, label_uptr, 104);
AT(capkm_ledger_create, label_len, 112);
AT(capkm_ledger_create, on_limit, 116);
AT(capkm_ledger_create, out_limit, 120);
AT(capkm_ledger_create, __reserved, 124);
AT(capkm_ledger_create, out_ledger, 128);

SIZE(capkm_ledger_begin_step, 24);
AT(capkm_ledger_begin_step, size, 0);
AT(capkm_ledger_begin_step, flags, 4);
AT(capkm_ledger_begin_step, ledger, 8);
AT(capkm_ledger_begin_step, out_steps, 16);

SIZE(capkm_ledger_reserve, 80);
AT(capkm_ledger_reserve, size, 0);
AT(capkm_ledger_reserve, flags, 4);
AT(capkm_ledger_reserve, ledger, 8);
AT(capkm_ledger_reserve, usage, 16);
AT(capkm_ledger_reserve, out_result, 48);
AT(capkm_ledger_reserve, out_axis, 52);
AT(capkm_ledger_reserve, out_bound, 56);
AT(capkm_ledger_reserve, __reserved, 60);
AT(capkm_ledger_reserve, out_used, 64);
AT(capkm_ledger_reserve, out_most, 72);

SIZE(capkm_ledger_query, 304);
AT(capkm_ledger_query, size, 0);
AT(capkm_ledger_query, flags, 4);
AT(capkm_ledger_query, ledger, 8);
AT(capkm_ledger_query, out_ledger, 16);
AT(capkm_ledger_query, out_holder, 24);
AT(capkm_ledger_query, out_parent, 32);
AT(capkm_ledger_query, out_flags, 40);
AT(capkm_ledger_query, out_on_limit, 44);
AT(capkm_ledger_query, out_per_step, 48);
AT(capkm_ledger_query, out_cumulative, 80);
AT(capkm_ledger_query, out_inherited, 112);
AT(capkm_ledger_query, out_step, 144);
AT(capkm_ledger_query, out_total, 176);
AT(capkm_ledger_query, out_steps, 208);
AT(capkm_ledger_query, out_reserved, 216);
AT(capkm_ledger_query, out_refused, 224);
AT(capkm_ledger_query, out_created_ns, 232);
AT(capkm_ledger_query, out_label, 240);

SIZE(capkm_ledger_fork, 144);
AT(capkm_ledger_fork, size, 0);
AT(capkm_ledger_fork, flags, 4);
AT(capkm_ledger_fork, ledger, 8);
AT(capkm_ledger_fork, per_step, 16);
AT(capkm_ledger_fork, cumulative, 48);
AT(capkm_ledger_fork, label_uptr, 80);
AT(capkm_ledger_fork, label_len, 88);
AT(capkm_ledger_fork, on_limit, 92);
AT(capkm_ledger_fork, out_limit, 96);
AT(capkm_ledger_fork, __reserved, 100);
AT(capkm_ledger_fork, out_ledger, 104);
AT(capkm_ledger_fork, out_inherited, 112);

SIZE(capkm_ledger_adopt, 16);
AT(capkm_ledger_adopt, size, 0);
AT(capkm_ledger_adopt, flags, 4);
AT(capkm_ledger_adopt, ledger, 8);

SIZE(capkm_ledger_destroy, 16);
AT(capkm_ledger_destroy, size, 0);
AT(capkm_ledger_destroy, flags, 4);
AT(capkm_ledger_destroy, ledger, 8);

SIZE(capkm_event, 128);
AT(capkm_event, size, 0);
AT(capkm_event, type, 4);
AT(capkm_event, number, 8);
AT(capkm_event, lost, 16);
AT(capkm_event, time_ns, 24);
AT(capkm_event, sequence, 32);
AT(capkm_event, session, 40);
AT(capkm_event, stream, 48);
AT(capkm_event, window, 56);
AT(capkm_event, graph, 64);
AT(capkm_event, failure, 72);
AT(capkm_event, count, 80);
AT(capkm_event, kind, 88);
AT(capkm_event, pid, 92);
AT(capkm_event, device, 96);
AT(capkm_event, ledger, 112);
AT(capkm_event, axis, 120);
AT(capkm_event, bound, 124);

SIZE(capkm_element, 16);
AT(capkm_element, nr, 0);
AT(capkm_element, __reserved, 4);
AT(capkm_element, arg_uptr, 8);

SIZE(capkm_submit, 40);
AT(capkm_submit, size, 0);
AT(capkm_submit, flags, 4);
AT(capkm_submit, elements_uptr, 8);
AT(capkm_submit, elements_len, 16);
AT(capkm_submit, from, 20);
AT(capkm_submit, out_done, 24);
AT(capkm_submit, out_error, 28);
AT(capkm_submit, out_error_index, 32);
AT(capkm_submit, __reserved, 36);

SIZE(capkm_domain_page, 32);
AT(capkm_domain_page, sequence, 0);
AT(capkm_domain_page, events, 8);
AT(capkm_domain_page, orphans, 16);
AT(capkm_domain_page, faulted, 24);
AT(capkm_domain_page, destroyed, 28);

SIZE(capkm_status_slot, 16);
AT(capkm_status_slot, settled, 0);
AT(capkm_status_slot, state, 8);
AT(capkm_status_slot, __reserved, 12);

SIZE(capkm_status_page, 2240);
AT(capkm_status_page, mode, 0);
AT(capkm_status_page, streams, 4);
AT(capkm_status_page, migrated, 8);
AT(capkm_status_page, revoked, 16);
AT(capkm_status_page, dropped, 24);
AT(capkm_status_page, __reserved, 32);
AT(capkm_status_page, transitions, 64);
AT(capkm_status_page, slot, 192);

SIZE(capkm_status_buffer, 16);
AT(capkm_status_buffer, bytes, 0);
AT(capkm_status_buffer, word, 8);
AT(capkm_status_buffer, __reserved, 12);

SIZE(capkm_table_entry, 512);
AT(capkm_table_entry, state, 0);
AT(capkm_table_entry, stream, 8);
AT(capkm_table_entry, entered, 16);
AT(capkm_table_entry, slot, 24);
AT(capkm_table_entry, claims, 28);
AT(capkm_table_entry, label, 32);
AT(capkm_table_entry, claim, 96);
AT(capkm_table_entry, __reserved, 480);

SIZE(capkm_table_slot, 64);
AT(capkm_table_slot, sequence, 0);
AT(capkm_table_slot, first, 8);
AT(capkm_table_slot, finished, 16);
AT(capkm_table_slot, __reserved, 24);

SIZE(capkm_table_buffer, 32);
AT(capkm_table_buffer, in_flight, 0);
AT(capkm_table_buffer, __reserved, 4);
AT(capkm_table_buffer, touched, 8);
AT(capkm_table_buffer, dirty, 16);
AT(capkm_table_buffer, __reserved2, 24);

SIZE(capkm_scope_table, 64);
AT(capkm_scope_table, size, 0);
AT(capkm_scope_table, flags, 4);
AT(capkm_scope_table, place, 8);
AT(capkm_scope_table, entry, 40);
AT(capkm_scope_table, out_entry, 44);
AT(capkm_scope_table, out_slot, 48);
AT(capkm_scope_table, out_streams, 52);
AT(capkm_scope_table, out_limit, 56);
AT(capkm_scope_table, __reserved, 60);
