-- The tables of the system that Tollgate replaces, as views: what its operators type there works here. For people, not for
-- programs: a question without the item's type reads every item. Times are timestamps here.

CREATE FUNCTION tg_time(us bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT timestamptz 'epoch' + us * interval '1 microsecond'
$$;

CREATE VIEW payment_exec_queue AS
    SELECT q.item_id AS payment_id, q.item_type, q.queue_status,
           tg_time(q.scheduled_exec_time) AS scheduled_exec_time, b.init_workflow_id,
           q.dispatch_batch_id, q.exec_workflow_id, tg_time(q.claimed_at) AS claimed_at,
           tg_time(q.dispatched_at) AS dispatched_at, q.retry_count, q.last_error,
           tg_time(q.created_at) AS created_at,
           tg_time(greatest(q.updated_at, q.claimed_at, q.dispatched_at, q.finished_at))
               AS updated_at
    FROM item_queue q
    LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id;

-- A body has no times of its own: those of its item.
CREATE VIEW payment_exec_context AS
    SELECT b.item_id AS payment_id, b.item_type, b.body AS context_json, 1 AS context_version,
           tg_time(q.created_at) AS created_at, tg_time(q.updated_at) AS updated_at
    FROM item_body b
    LEFT JOIN item_queue q ON q.item_type = b.item_type AND q.item_id = b.item_id;

CREATE VIEW dispatch_audit_log AS
    SELECT audit_id, batch_id, item_type, item_id AS payment_id, action, status_before,
           status_after, detail, tg_time(created_at) AS created_at
    FROM audit_log;

-- PostgreSQL would pass a change of a view of one table on to the table.
CREATE FUNCTION tg_only_to_read() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is only to read', TG_TABLE_NAME;
END
$$;
CREATE TRIGGER dispatch_audit_log_is_only_to_read INSTEAD OF INSERT OR UPDATE OR DELETE
    ON dispatch_audit_log FOR EACH ROW EXECUTE FUNCTION tg_only_to_read();

-- The newest version of each item type's setting; created with the first.
CREATE VIEW exec_rate_config AS
    SELECT s.name AS item_type,
           CASE WHEN (s.body::json ->> 'enabled')::boolean THEN 1 ELSE 0 END AS enabled,
           (s.body::json ->> 'batchSize')::bigint AS batch_size,
           (s.body::json ->> 'dispatchIntervalSecs')::bigint AS dispatch_interval_secs,
           (s.body::json ->> 'jitterWindowMs')::bigint AS jitter_window_ms,
           (s.body::json ->> 'preStartBufferMins')::numeric AS pre_start_buffer_mins,
           (s.body::json ->> 'maxDispatchRetries')::bigint AS max_dispatch_retries,
           (s.body::json ->> 'staleClaimThresholdMins')::numeric AS stale_claim_threshold_mins,
           s.body::json ->> 'execWorkflowType' AS exec_workflow_type,
           s.body::json ->> 'execTaskQueue' AS exec_task_queue,
           tg_time((SELECT f.created_at FROM setting f WHERE f.kind = s.kind AND f.name = s.name
                    ORDER BY f.version LIMIT 1)) AS created_at,
           tg_time(s.created_at) AS updated_at
    FROM setting s
    WHERE s.kind = 'item_type'
      AND s.version = (SELECT max(v.version) FROM setting v
                       WHERE v.kind = s.kind AND v.name = s.name);

-- An UPDATE writes the next version of the setting, as the API does, under the same lock and within the same bounds
-- (core::item_type). Only what was changed is changed, whatever others have changed since.
CREATE FUNCTION tg_change_item_type() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed jsonb := '{}';
    wrong   text;
    who     text := 'sql:' || session_user;
    why     text := 'UPDATE of exec_rate_config';
    written setting%ROWTYPE;
BEGIN
    wrong := CASE
        WHEN (NEW.item_type, NEW.exec_workflow_type, NEW.created_at, NEW.updated_at)
             IS DISTINCT FROM
             (OLD.item_type, OLD.exec_workflow_type, OLD.created_at, OLD.updated_at)
            THEN 'item_type, exec_workflow_type, created_at and updated_at cannot be changed'
        WHEN (NEW.enabled IN (0, 1)) IS NOT TRUE THEN 'enabled must be 0 or 1'
        WHEN (NEW.batch_size BETWEEN 1 AND 10000) IS NOT TRUE
            THEN 'batch_size must be between 1 and 10000'
        WHEN (NEW.dispatch_interval_secs BETWEEN 1 AND 3600) IS NOT TRUE
            THEN 'dispatch_interval_secs must be between 1 and 3600'
        WHEN (NEW.jitter_window_ms BETWEEN 0 AND 3600000) IS NOT TRUE
            THEN 'jitter_window_ms must be between 0 and 3600000'
        WHEN (NEW.pre_start_buffer_mins BETWEEN 0 AND 60) IS NOT TRUE
            THEN 'pre_start_buffer_mins must be between 0 and 60'
        WHEN (NEW.max_dispatch_retries BETWEEN 1 AND 1000) IS NOT TRUE
            THEN 'max_dispatch_retries must be between 1 and 1000'
        WHEN (NEW.stale_claim_threshold_mins BETWEEN 0.0167 AND 1440) IS NOT TRUE
            THEN 'stale_claim_threshold_mins must be between one second (0.0167) and a day (1440)'
        WHEN NEW.exec_task_queue IS DISTINCT FROM OLD.exec_task_queue
             AND (NEW.exec_task_queue ~ '^[!-~]{1,200}$') IS NOT TRUE
            THEN 'exec_task_queue must be 1 to 200 printable ASCII characters without spaces'
        END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', wrong USING ERRCODE = 'check_violation';
    END IF;
    SELECT coalesce(jsonb_object_agg(n.key, n.value), '{}') INTO changed
        FROM jsonb_each(tg_item_type(NEW)) n JOIN jsonb_each(tg_item_type(OLD)) o USING (key)
        WHERE n.value <> o.value;
    PERFORM pg_advisory_xact_lock(hashtextextended('tollgate/setting/item_type/' || OLD.item_type, 0));
    INSERT INTO setting (kind, name, version, body, actor, reason, created_at)
        SELECT kind, name, version + 1,
               -- A flow holds items of one claim.
               jsonb_set(body::jsonb || changed, '{itemsPerFlow}',
                         to_jsonb(least((body::jsonb ->> 'itemsPerFlow')::bigint,
                                        ((body::jsonb || changed) ->> 'batchSize')::bigint)),
                         false)::text,
               who, why, tg_now()
        FROM setting WHERE kind = 'item_type' AND name = OLD.item_type
        ORDER BY version DESC LIMIT 1
        RETURNING * INTO written;
    INSERT INTO audit_log (action, actor, detail, created_at)
        VALUES ('SETTING_CHANGED', who, format('item_type %s version %s: %s (%s)',
                written.name, written.version, written.body, why),
                written.created_at);
    RETURN NEW;
END
$$;

-- A row of the view as a part of the setting's body.
CREATE FUNCTION tg_item_type(config exec_rate_config) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'enabled', config.enabled = 1, 'batchSize', config.batch_size,
        'dispatchIntervalSecs', config.dispatch_interval_secs,
        'jitterWindowMs', config.jitter_window_ms,
        'preStartBufferMins', trim_scale(round(config.pre_start_buffer_mins, 6)),
        'maxDispatchRetries', config.max_dispatch_retries,
        'staleClaimThresholdMins', trim_scale(round(config.stale_claim_threshold_mins, 6)),
        'execTaskQueue', config.exec_task_queue)
$$;

CREATE TRIGGER exec_rate_config_is_a_setting INSTEAD OF UPDATE
    ON exec_rate_config FOR EACH ROW EXECUTE FUNCTION tg_change_item_type();
