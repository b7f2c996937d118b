"""Live facts: what the loaded policies ask about the cluster, listed and watched; and the pause that an operator may order."""

from webhook.watch.follower import Follower, Health
from webhook.watch.live_facts import LiveFacts
from webhook.watch.pace import Pace
from webhook.watch.pause import PauseWatch
from webhook.watch.resources import WATCHED, Resource

__all__ = ["WATCHED", "Follower", "Health", "LiveFacts", "Pace", "PauseWatch", "Resource"]
