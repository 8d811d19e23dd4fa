"""What the voice reads: sentences to calibrate with, and others to judge by."""

CALIBRATION = """\
Please open the window and let some air in.
She bought three apples and a loaf of bread.
The train leaves at seven in the morning.
We walked along the river until it was dark.
He forgot his keys on the kitchen table.
A small dog was sleeping under the chair.
Could you tell me the way to the station?
The weather will be warm and dry tomorrow.
My brother plays the piano every evening.
There are twelve eggs in the blue basket.
I have never seen such a beautiful garden.
The doctor asked her to rest for a week.
Turn left at the church and then go straight on.
They painted the old house white and green.
Nobody knew what had happened to the ship.
The children are building a castle of sand.""".splitlines()

JUDGED = """\
The quick brown fox jumps over the lazy dog.
It takes about an hour to get to the city.
Would you like a cup of tea or coffee?
The farmer sold his horses at the market.
Her first book was printed last September.
Water boils at one hundred degrees.
The museum is closed on Mondays in winter.
He counted the money twice and smiled.
We need more paper for the printer.
Our neighbours have moved to another country.
Leave your coat and your boots in the hall.
The teacher wrote a long word on the board.
An old man was fishing from the bridge.
I will call you as soon as I arrive.
The lamp in the corner does not work.
She speaks three languages without an accent.
Put the butter back into the fridge, please.
The road to the village is very narrow.
All the shops were closed because of the snow.
My uncle has a farm near the mountains.
The soup is too hot to eat at once.
They met for the first time in Paris.
A heavy stone fell into the water.
Who left the light on in the cellar?
The king gave the soldier a golden ring.
Every child in the room knew the song.
There is a letter for you on the desk.
The boat came back without its sail.
He could not remember the name of the street.
It has been raining since early morning.
The cat climbed the tree and stayed there.
We paid for the tickets at the entrance.
Her father works in a large hospital.
The apples on that tree are not ripe yet.
Do not forget to water the flowers.
The clock on the tower is ten minutes slow.
A stranger asked us for some bread.
The baker opens his shop before sunrise.
They will build a new school next year.
I would rather walk than take the bus.
The glass broke into a thousand pieces.
Your sister told me a very funny story.
The winter was long and the wood was wet.
Two birds were singing on the roof.
He washed his hands and sat down to eat.
The judge listened to both sides.
This path leads through the forest to the lake.
She put the photograph into a silver frame.
The engine makes a strange noise.
We had to wait until the storm was over.
The little girl lost her red shoe.
Nobody believed what the sailor said.
The bridge was built two hundred years ago.
Bring me the hammer and a few nails.
The price of milk has gone up again.
He wrote his name at the bottom of the page.
In summer we sleep with open windows.
The guard did not let anyone pass.
A thin smoke rose from the chimney.
Tomorrow I will clean the whole house.""".splitlines()
