"""One encoder for actor and critic, as in the published runs: learned by both, stored once."""

import torch

from horizon_imagination.agent import Agent
from horizon_imagination.costs import costs
from horizon_imagination.learn.learners import _groups
from horizon_imagination.presets import DEBUG, PRESETS, replaced

CPU = torch.device("cpu")
SHARED = replaced(DEBUG, controller={"shared_encoder": True})


def test_the_critic_teaches_the_encoder_of_the_actor():
    for config, reached in ((SHARED, True), (DEBUG, False)):
        agent = Agent(config, 3, CPU)
        z = torch.rand(2, 3, *agent.latent_shape)
        agent.critic(z)[0].sum().backward()
        found = [p.grad is not None for p in agent.actor.encoder.cnn.parameters()]
        assert all(found) if reached else not any(found)


def test_every_weight_is_optimised_once_and_stored_once(tmp_path):
    agent = Agent(SHARED, 3, CPU)
    groups = _groups(agent, ["actor", "critic"], frozenset())
    everything = [id(p) for group in groups.values() for p in group]
    assert len(everything) == len(set(everything))
    assert {id(p) for p in agent.critic.parameters()} <= set(everything)
    agent.save(tmp_path)
    loaded = Agent.load(tmp_path, device="cpu")
    assert loaded.critic.encoder is loaded.actor.encoder
    assert not any(name.startswith("critic.encoder.") for name in loaded.weights())
    z = torch.rand(1, 2, *agent.latent_shape)
    torch.testing.assert_close(loaded.critic(z)[0], agent.critic(z)[0])


def test_at_the_sizes_of_the_paper_it_has_the_number_of_parameters_of_the_paper():
    for shared, millions in ((True, 7.5), (False, 10.8)):
        config = replaced(PRESETS["paper"][1], controller={"shared_encoder": shared})
        counted = costs(config, 18).parameters
        assert abs(counted["actor"] + counted["critic"] - millions * 1e6) < 0.1e6
