"""The simulated rack: stateful models of GPU servers with mlx5 cards, for what no virtual machine can show."""
