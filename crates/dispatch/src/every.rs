//! Doing something every so often until told to stop. A stop does not wait for the work: it is cut
//! off between two steps, as by a crash, and whoever starts next does it again.

use std::time::Duration;

use tokio::sync::watch;

#[derive(Debug)]
pub struct Every {
    pause: Duration,
    stop: watch::Receiver<bool>,
}

impl Every {
    pub fn new(pause: Duration, stop: watch::Receiver<bool>) -> Self {
        Self { pause, stop }
    }

    /// Does this, then pauses. `false` as soon as it is time to stop.
    pub async fn once(&mut self, work: impl Future<Output = ()>) -> bool {
        let done = tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => false,
            () = work => true,
        };
        done && self.pause().await
    }

    /// `false` as soon as it is time to stop.
    pub async fn pause(&mut self) -> bool {
        tokio::select! {
            () = tokio::time::sleep(self.pause) => true,
            _ = self.stop.wait_for(|stop| *stop) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_until_it_is_told_to_stop() {
        let (stop, stopped) = watch::channel(false);
        let mut every = Every::new(HOUR, stopped);
        let mut done = 0;
        while every.once(async { done += 1 }).await {
            if done == 3 {
                stop.send(true).unwrap();
            }
        }
        assert_eq!(done, 3);
        assert!(!every.pause().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_neither_for_the_work_nor_for_a_pause() {
        let (stop, stopped) = watch::channel(false);
        let mut every = Every::new(HOUR, stopped);
        let ending = async { stop.send(true).unwrap() };
        let (goes_on, ()) = tokio::join!(every.once(std::future::pending()), ending);
        assert!(!goes_on);
    }

    #[tokio::test(start_paused = true)]
    async fn it_stops_when_nobody_is_left_to_tell_it() {
        let (stop, stopped) = watch::channel(false);
        drop(stop);
        assert!(!Every::new(HOUR, stopped).once(async {}).await);
    }
}
