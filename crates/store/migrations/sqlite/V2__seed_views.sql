-- The tables of the system that Tollgate replaces, as views: what its operators type there works here. For people, not for
-- programs: a question without the item's type reads every item. Times are text here, in UTC. No function of ours is
-- used, so that any program that opens the file can read and write them.

CREATE VIEW payment_exec_queue AS
    SELECT q.item_id AS payment_id, q.item_type, q.queue_status,
           strftime('%Y-%m-%d %H:%M:%f', q.scheduled_exec_time / 1000000.0, 'unixepoch')
               AS scheduled_exec_time,
           b.init_workflow_id, q.dispatch_batch_id, q.exec_workflow_id,
           strftime('%Y-%m-%d %H:%M:%f', q.claimed_at / 1000000.0, 'unixepoch') AS claimed_at,
           strftime('%Y-%m-%d %H:%M:%f', q.dispatched_at / 1000000.0, 'unixepoch')
               AS dispatched_at,
           q.retry_count, q.last_error,
           strftime('%Y-%m-%d %H:%M:%f', q.created_at / 1000000.0, 'unixepoch') AS created_at,
           strftime('%Y-%m-%d %H:%M:%f', max(q.updated_at, coalesce(q.claimed_at, 0),
                    coalesce(q.dispatched_at, 0), coalesce(q.finished_at, 0)) / 1000000.0,
                    'unixepoch') AS updated_at
    FROM item_queue q
    LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id;

-- A body has no times of its own: those of its item.
CREATE VIEW payment_exec_context AS
    SELECT b.item_id AS payment_id, b.item_type, b.body AS context_json, 1 AS context_version,
           strftime('%Y-%m-%d %H:%M:%f', q.created_at / 1000000.0, 'unixepoch') AS created_at,
           strftime('%Y-%m-%d %H:%M:%f', q.updated_at / 1000000.0, 'unixepoch') AS updated_at
    FROM item_body b
    LEFT JOIN item_queue q ON q.item_type = b.item_type AND q.item_id = b.item_id;

CREATE VIEW dispatch_audit_log AS
    SELECT audit_id, batch_id, item_type, item_id AS payment_id, action, status_before,
           status_after, detail,
           strftime('%Y-%m-%d %H:%M:%f', created_at / 1000000.0, 'unixepoch') AS created_at
    FROM audit_log;

-- The newest version of each item type's setting; created with the first.
CREATE VIEW exec_rate_config AS
    SELECT s.name AS item_type, json_extract(s.body, '$.enabled') AS enabled,
           json_extract(s.body, '$.batchSize') AS batch_size,
           json_extract(s.body, '$.dispatchIntervalSecs') AS dispatch_interval_secs,
           json_extract(s.body, '$.jitterWindowMs') AS jitter_window_ms,
           json_extract(s.body, '$.preStartBufferMins') AS pre_start_buffer_mins,
           json_extract(s.body, '$.maxDispatchRetries') AS max_dispatch_retries,
           json_extract(s.body, '$.staleClaimThresholdMins') AS stale_claim_threshold_mins,
           json_extract(s.body, '$.execWorkflowType') AS exec_workflow_type,
           json_extract(s.body, '$.execTaskQueue') AS exec_task_queue,
           (SELECT strftime('%Y-%m-%d %H:%M:%f', f.created_at / 1000000.0, 'unixepoch')
            FROM setting f WHERE f.kind = s.kind AND f.name = s.name
            ORDER BY f.version LIMIT 1) AS created_at,
           strftime('%Y-%m-%d %H:%M:%f', s.created_at / 1000000.0, 'unixepoch') AS updated_at
    FROM setting s
    WHERE s.kind = 'item_type'
      AND s.version = (SELECT max(v.version) FROM setting v
                       WHERE v.kind = s.kind AND v.name = s.name);

-- An UPDATE writes the next version of the setting, as the API does, within the same bounds (core::item_type).
CREATE TRIGGER exec_rate_config_is_a_setting INSTEAD OF UPDATE ON exec_rate_config
BEGIN
    SELECT CASE
        WHEN (NEW.item_type, NEW.exec_workflow_type, NEW.created_at, NEW.updated_at)
             IS NOT (OLD.item_type, OLD.exec_workflow_type, OLD.created_at, OLD.updated_at)
            THEN RAISE(ABORT, 'item_type, exec_workflow_type, created_at and updated_at cannot be changed')
        WHEN NOT coalesce(NEW.enabled IN (0, 1), 0) THEN RAISE(ABORT, 'enabled must be 0 or 1')
        WHEN typeof(NEW.batch_size) <> 'integer' OR NEW.batch_size NOT BETWEEN 1 AND 10000
            THEN RAISE(ABORT, 'batch_size must be between 1 and 10000')
        WHEN typeof(NEW.dispatch_interval_secs) <> 'integer'
             OR NEW.dispatch_interval_secs NOT BETWEEN 1 AND 3600
            THEN RAISE(ABORT, 'dispatch_interval_secs must be between 1 and 3600')
        WHEN typeof(NEW.jitter_window_ms) <> 'integer'
             OR NEW.jitter_window_ms NOT BETWEEN 0 AND 3600000
            THEN RAISE(ABORT, 'jitter_window_ms must be between 0 and 3600000')
        WHEN typeof(NEW.pre_start_buffer_mins) NOT IN ('integer', 'real')
             OR NEW.pre_start_buffer_mins NOT BETWEEN 0 AND 60
            THEN RAISE(ABORT, 'pre_start_buffer_mins must be between 0 and 60')
        WHEN typeof(NEW.max_dispatch_retries) <> 'integer'
             OR NEW.max_dispatch_retries NOT BETWEEN 1 AND 1000
            THEN RAISE(ABORT, 'max_dispatch_retries must be between 1 and 1000')
        WHEN typeof(NEW.stale_claim_threshold_mins) NOT IN ('integer', 'real')
             OR NEW.stale_claim_threshold_mins NOT BETWEEN 0.0167 AND 1440
            THEN RAISE(ABORT, 'stale_claim_threshold_mins must be between one second (0.0167) and a day (1440)')
        WHEN NEW.exec_task_queue IS NOT OLD.exec_task_queue
             AND (typeof(NEW.exec_task_queue) <> 'text' OR NEW.exec_task_queue GLOB '*[^!-~]*'
                  OR length(NEW.exec_task_queue) NOT BETWEEN 1 AND 200)
            THEN RAISE(ABORT, 'exec_task_queue must be 1 to 200 printable ASCII characters without spaces')
        END;
    INSERT INTO setting (kind, name, version, body, actor, reason, created_at)
        SELECT kind, name, version + 1,
               -- A flow holds items of one claim.
               json_set(json_replace(body, '$.itemsPerFlow',
                                     min(json_extract(body, '$.itemsPerFlow'), NEW.batch_size)),
                        '$.enabled', json(CASE NEW.enabled WHEN 1 THEN 'true' ELSE 'false' END),
                        '$.batchSize', NEW.batch_size,
                        '$.dispatchIntervalSecs', NEW.dispatch_interval_secs,
                        '$.jitterWindowMs', NEW.jitter_window_ms,
                        '$.preStartBufferMins', round(NEW.pre_start_buffer_mins, 6),
                        '$.maxDispatchRetries', NEW.max_dispatch_retries,
                        '$.staleClaimThresholdMins', round(NEW.stale_claim_threshold_mins, 6),
                        '$.execTaskQueue', NEW.exec_task_queue),
               'sql', 'UPDATE of exec_rate_config',
               CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
        FROM setting WHERE kind = 'item_type' AND name = OLD.item_type
        ORDER BY version DESC LIMIT 1;
    INSERT INTO audit_log (action, actor, detail, created_at)
        SELECT 'SETTING_CHANGED', actor,
               'item_type ' || name || ' version ' || version || ': ' || body || ' (' || reason || ')',
               created_at
        FROM setting WHERE kind = 'item_type' AND name = OLD.item_type
        ORDER BY version DESC LIMIT 1;
END;
