//! Queues to drain and to claim from: plain rows as admission would have left them, without slots.

use anyhow::Result;

use super::target;

/// Everything due already, with records to move.
pub(crate) async fn due(url: &str, count: u32) -> Result<()> {
    const RECORDS: &str = "INSERT INTO record (item_type, item_id, owner, status, amount_minor,
             currency, content_hash, document, created_at, updated_at)
         SELECT 'PAYMENT', 'item-' || lpad(n::text, 10, '0'), 'bench', 'SCHEDULED', 100, 'EUR',
                'same', '{}', tg_now(), tg_now()
         FROM generate_series(1, $1::bigint) n";
    let client = target::connect(url).await?;
    client.execute(RECORDS, &[&i64::from(count)]).await?;
    queue(&client, count, -3_600_000_000).await
}

/// Everything due from this time tomorrow on, a thousand a second.
pub(super) async fn tomorrow(url: &str, count: u32) -> Result<()> {
    let client = target::connect(url).await?;
    queue(&client, count, super::claims::TOMORROW_US).await
}

async fn queue(client: &tokio_postgres::Client, count: u32, from_now_us: i64) -> Result<()> {
    const CONTEXTS: &str = "INSERT INTO item_context (item_type, item_id, context_json)
         SELECT 'PAYMENT', 'item-' || lpad(n::text, 10, '0'), '{}'
         FROM generate_series(1, $1::bigint) n";
    const QUEUE: &str = "INSERT INTO item_queue (item_type, item_id, lane, queue_status,
             scheduled_exec_time, run, fence, retry_count, init_workflow_id, created_at)
         SELECT 'PAYMENT', 'item-' || lpad(n::text, 10, '0'), 'bench', 'READY',
                now.us + $2 + n * 1000, 1, 0, 0, 'init-bench', now.us
         FROM generate_series(1, $1::bigint) n, (SELECT tg_now() AS us) now";
    client.execute(CONTEXTS, &[&i64::from(count)]).await?;
    client
        .execute(QUEUE, &[&i64::from(count), &from_now_us])
        .await?;
    Ok(())
}
