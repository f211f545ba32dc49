//! Queues to drain and to claim from: plain rows as admission would have left them, without slots.

use anyhow::Result;

use super::target;

/// Everything due already, with records to move.
pub(crate) async fn due(url: &str, count: u32) -> Result<()> {
    let client = target::connect(url).await?;
    queue(&client, count, -3_600_000_000).await
}

/// Everything due from this time tomorrow on, a thousand a second.
pub(super) async fn tomorrow(url: &str, count: u32) -> Result<()> {
    let client = target::connect(url).await?;
    queue(&client, count, super::claims::TOMORROW_US).await
}

async fn queue(client: &tokio_postgres::Client, count: u32, from_now_us: i64) -> Result<()> {
    const BODIES: &str = "INSERT INTO item_body (item_type, item_id, content_hash, body,
             init_workflow_id)
         SELECT 'PAYMENT', 'item-' || lpad(n::text, 10, '0'), 'same', '{}', 'init-bench'
         FROM generate_series(1, $1::bigint) n";
    const QUEUE: &str = "INSERT INTO item_queue (item_type, item_id, lane, currency, amount_minor,
             created_at, requested_time, window_start, scheduled_time, generation, queue_status,
             status, updated_at, scheduled_exec_time, run, fence, retry_count)
         SELECT 'PAYMENT', 'item-' || lpad(n::text, 10, '0'), 'bench', 'EUR', 100, now.us, due.us,
                due.us, due.us, 0, 'READY', 'SCHEDULED', now.us, due.us, 1, 0, 0
         FROM generate_series(1, $1::bigint) n, (SELECT tg_now() AS us) now,
              LATERAL (SELECT now.us + $2 + n * 1000 AS us) due";
    client.execute(BODIES, &[&i64::from(count)]).await?;
    client
        .execute(QUEUE, &[&i64::from(count), &from_now_us])
        .await?;
    Ok(())
}
