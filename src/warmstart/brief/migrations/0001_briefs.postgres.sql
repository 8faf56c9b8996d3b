-- Nothing to do: beside a server, briefs are in files on the machine of the agent.
SELECT 1;
